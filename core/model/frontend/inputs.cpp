#include "core/model/frontend/inputs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/frontend/columns.h"
#include "core/model/frontend/dtype.h"
#include "core/model/frontend/input_guess.h"
#include "core/model/frontend/model_output.h"
#include "core/model/frontend/rejection.h"
#include "core/model/frontend/requested_input_specs_and_tensors.h"
#include "core/model/frontend/token_rows.h"
#include "core/model/program/buffer_and_rng_state_guard.h"
#include "core/model/program/interpreter.h"
#include "core/model/program/written_inputs.h"

namespace memtune::frontend {
namespace {

using plan::InputSpec;

class BatchMaker {
 public:
  BatchMaker(const plan::TrialRequest& request, LossKind loss, const program::Program& model, c10::Device device)
      : request_(request),
        loss_(loss),
        model_(model),
        device_(device),
        names_(program::input_names(model)),
        padded_(has_padding(request.model, request.training)),
        target_(choose_target(request.model, request.training, loss, model.inputs)),
        generator_(at::globalContext().defaultGenerator(c10::kCPU).clone()) {
    if (!target_.empty() && !contains(names_, target_)) names_.push_back(target_);
    for (const std::string& name : other_inputs(loss)) names_.push_back(name);
    described_ = describe(request.model, names_);
    generator_.set_current_seed(static_cast<uint64_t>(request.training.seed));
  }

  TrainingBatch make() {
    check_names();
    if (request_.training.pack && is_of_completions(loss_))
      throw UsageError("--loss " + to_string(loss_) + " takes a row for each completion: leave out --pack");
    for (const std::string& name : names_) add(name);
    if (pending_target_) make_target();
    if (rows_of_sample(loss_) == 2) check_pairs();
    if (loss_ == LossKind::kto) check_for_kto();
    if (loss_ == LossKind::grpo) check_for_grpo();
    if (loss_ == LossKind::embedding) check_columns();
    count();
    return std::move(batch_);
  }

 private:
  // Null for an input that only the loss uses.
  const program::ModelOrLossInputDeclaration* argument(const std::string& name) const {
    for (const auto& input : model_.inputs)
      if (input.name == name) return &input;
    return nullptr;
  }

  void check_names() const {
    for (const std::string& name : described_.names())
      if (!contains(names_, name)) throw UsageError(unknown_name("input", name, names_));
  }

  void add(const std::string& name) {
    if (auto file = described_.file.find(name); file != described_.file.end())
      return add(name, spec_of(name, prepared(name, file->second)), prepared(name, file->second));
    if (auto* spec = described_.find(name)) return make_up(sized(*spec));
    if (documents_ > 0 && name == "position_ids") return make_up_positions(name);
    if (name == "cu_seq_lens_q" && on_host_.count("position_ids") > 0) return make_up_ends(name);
    if (loss_ == LossKind::dpo && name == "completion_mask") return make_up_completions(name);
    if (loss_ == LossKind::dpo && contains(other_inputs(loss_), name)) return make_up_reference(name);
    if (loss_ == LossKind::kto && contains(other_inputs(loss_), name)) return make_up_for_kto(name);
    if (loss_ == LossKind::grpo && contains(other_inputs(loss_), name)) return make_up_for_grpo(name);
    if (loss_ == LossKind::reward && contains(other_inputs(loss_), name)) return leave_out(name);
    if (auto* input = argument(name); input && input->described && model_.kind == "config")
      return make_up_row_labels(*input->described);
    if (padded_ && without_column(name) == kPadding) return make_up_padding(name);
    if (padded_ && name == target_ && is_of_tokens(loss_)) return make_up_labels(name);
    if (name == target_ && is_of_tokens(loss_)) return make_up_like_tokens(name);
    if (name == target_ && !argument(name)) {
      pending_target_ = true;
      return;
    }
    if (auto* input = argument(name); input && input->described) return make_up_described(*input->described);
    if (auto* input = argument(name); input && input->optional)
      return add(name, {name, "none", {}, std::nullopt}, at::Tensor());
    auto guess = described_.specs.empty() ? guess_input(model_, slot(name), name) : std::nullopt;
    if (!guess)
      throw UsageError("input '" + name + "' is not described; say what it is, as in --input '" + name +
                       ":int64[2,128]<1000' or --input '" + name + ":float32[8,3,224,224]'");
    make_up_guess(*guess);
  }

  // Made as described in the model's file, at the requested batch and sequence. Integers that do not index an embedding
  // are copied from the sample, because masks and positions have a meaning.
  void make_up_described(const model::InputTensorDescription& input) {
    if (input.dtype.empty())
      throw UsageError("input '" + input.name +
                       "' is of a dtype that memtune does not generate; give it with --inputs FILE");
    std::vector<model::InputTensorDescription> all;
    for (const program::ModelOrLossInputDeclaration& other : model_.inputs)
      if (other.described) all.push_back(*other.described);
    const auto shapes = model::resize(all, request_.training.batch, request_.training.sequence);
    InputSpec spec{input.name, input.dtype, {}, std::nullopt};
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].name == input.name) spec.shape = shapes[i];
    if (is_integer(input.dtype)) spec.below = embedding_rows(model_, slot(input.name));
    if (spec.below || input.sample.empty()) return make_up(spec);
    const std::vector<int64_t> values = model::repeat_sample(input, spec.shape);
    add(input.name, spec, at::tensor(values, at::kLong).view(spec.shape).to(scalar_type(spec.dtype)));
  }

  // A label for each row of tokens, of a classifier that is built from its config.
  void make_up_row_labels(const model::InputTensorDescription& labels) {
    InputSpec spec{labels.name, labels.dtype, {batch_.specs.front().shape.at(0)}, std::nullopt};
    for (size_t i = 1; i < labels.dimensions.size(); ++i) spec.shape.push_back(labels.dimensions[i].size);
    if (is_integer(spec.dtype)) spec.below = static_cast<int64_t>(labels.sample.size());
    make_up(spec);
  }

  void make_up_guess(const InputSpec& guess) {
    make_up(sized(guess));
    batch_.guessed.push_back(plan::to_string(batch_.specs.back()));
  }

  void add(const std::string& name, const InputSpec& spec, const at::Tensor& tensor) {
    check_rows(name, tensor);
    if (padded_ && without_column(name) == kPadding) check_padding(name, tensor);
    if (auto* input = argument(name); input && input->described && tensor.defined())
      model::check_shape(*input->described, tensor.sizes().vec());
    batch_.specs.push_back(spec);
    on_host_[name] = tensor;
    batch_.tensors.push_back(tensor.defined() ? tensor.to(device_) : tensor);
  }

  // -1 for an input that only the loss uses, except tokens for the copy of the model.
  program::Slot slot(const std::string& name) const {
    if (name == kTokensOfKl) return slot(target_);
    const size_t i = std::find(names_.begin(), names_.end(), name) - names_.begin();
    return i < model_.body.inputs.size() ? model_.body.inputs[i] : -1;
  }

  // On CUDA an index outside of an embedding aborts the whole process.
  void check_rows(const std::string& name, const at::Tensor& tensor) const {
    auto rows = embedding_rows(model_, slot(name));
    if (!rows || !tensor.defined() || tensor.numel() == 0 || !at::isIntegralType(tensor.scalar_type(), false)) return;
    int64_t least = tensor.min().item<int64_t>(), most = tensor.max().item<int64_t>();
    if (least < 0 || most >= *rows)
      throw UsageError("input '" + name + "' has numbers from " + std::to_string(least) + " to " +
                       std::to_string(most) + ", the embedding it goes into has " + std::to_string(*rows) + " rows");
  }

  InputSpec sized(InputSpec spec) {
    const auto& training = request_.training;
    if (training.batch > 0 && !spec.shape.empty()) spec.shape[0] = training.batch * rows_of_sample(loss_);
    if (training.sequence > 0 && spec.shape.size() > 1) spec.shape[1] = training.sequence;
    if (training.pack && spec.shape.size() == 2) {
      documents_ = spec.shape[0];
      spec.shape = {1, spec.shape[0] * spec.shape[1]};
    }
    return spec;
  }

  // Positions of a packed row restart with each document. Their length is that of the tokens, which come first.
  void make_up_positions(const std::string& name) {
    const InputSpec& tokens = batch_.specs.front();
    const int64_t length = tokens.shape.at(1);
    add(name, {name, "int64", {1, length}, std::nullopt}, document_positions(length, documents_));
  }

  void make_up_ends(const std::string& name) {
    const at::Tensor ends = document_ends(on_host_.at("position_ids"));
    add(name, {name, "int32", {ends.numel()}, std::nullopt}, ends);
  }

  void make_up_padding(const std::string& name) {
    const std::vector<int64_t> shape = batch_.specs.back().shape;  // of the tokens
    add(name, {name, "int64", shape, std::nullopt}, padding_mask(shape.at(0), shape.at(1), request_.training.padding));
  }

  void make_up_labels(const std::string& name) {
    InputSpec labels = batch_.specs.front();
    const at::Tensor tokens = on_host_.at(labels.name);
    labels.name = name;
    add(name, labels, labels_of(tokens, on_host_.at(kPadding)));
  }

  // The second half of each row is the completion, without its padding.
  void make_up_completions(const std::string& name) {
    const InputSpec& tokens = spec_of_target();
    at::Tensor mask = at::zeros(tokens.shape, at::kLong);
    mask.narrow(1, tokens.shape[1] / 2, tokens.shape[1] - tokens.shape[1] / 2).fill_(1);
    if (const auto padding = on_host_.find(kPadding); padded_ && padding != on_host_.end()) mask *= padding->second;
    add(name, {name, "int64", tokens.shape, std::nullopt}, mask);
  }

  // As if each token of a completion had the probability 1/e under the reference model.
  void make_up_reference(const std::string& name) {
    const std::vector<int64_t> shape = {spec_of_target().shape[0] / 2};
    const int64_t length = spec_of_target().shape[1] / 2;
    add(name, {name, "float32", shape, std::nullopt}, at::full(shape, -length, at::kFloat));
  }

  const InputSpec& spec_of_target() const {
    const auto found = std::ranges::find(batch_.specs, target_, &InputSpec::name);
    if (found == batch_.specs.end() || found->shape.size() != 2)
      throw UsageError("--loss " + to_string(loss_) + ": the tokens '" + target_ + "' must be [rows, length]");
    return *found;
  }

  void add_made_up(const std::string& name, const at::Tensor& tensor) { add(name, spec_of(name, tensor), tensor); }
  at::Tensor given_padding() const {
    const auto padding = on_host_.find(kPadding);
    return padding == on_host_.end() ? at::Tensor() : padding->second;
  }
  void leave_out(const std::string& name) { add(name, {name, "none", {}, std::nullopt}, at::Tensor()); }

  // Every second row is desirable. The KL rows are the previous rows.
  void make_up_for_kto(const std::string& name) {
    const int64_t rows = spec_of_target().shape[0], length = spec_of_target().shape[1];
    const auto previous = [&](const std::string& of) { add_made_up(name, on_host_.at(of).roll(1, 0)); };
    if (name == "completion_mask") return make_up_completions(name);
    if (name == "label") return add_made_up(name, at::arange(rows).remainder(2).eq(0));
    if (name == kTokensOfKl) return previous(target_);
    if (name == "KL_completion_mask") return previous("completion_mask");
    if (name != kPaddingOfKl) return add_made_up(name, at::full({rows}, -(length / 2), at::kFloat));
    return given_padding().defined() ? previous(kPadding) : leave_out(name);
  }

  // The second half of each row is the completion, without its padding.
  void make_up_for_grpo(const std::string& name) {
    const int64_t rows = spec_of_target().shape[0], length = spec_of_target().shape[1];
    if (name == "advantages") return add_made_up(name, at::arange(rows).remainder(2).mul(2).sub(1).to(at::kFloat));
    if (name == "num_items_in_batch") return add_made_up(name, on_host_.at("completion_mask").sum());
    if (name == kOldLogProbs) return leave_out(name);
    const at::Tensor padding = given_padding(),
                     mask = padding.defined() ? padding : at::ones({rows, length}, at::kLong);
    add_made_up(name, mask.slice(1, length / 2).contiguous());
  }

  void check_shape(const std::string& name, const std::vector<int64_t>& wanted, const std::string& dtype) const {
    const InputSpec& spec = *std::ranges::find(batch_.specs, name, &InputSpec::name);
    const bool other_dtype = spec.dtype != dtype && !(dtype == "bool" && is_integer(spec.dtype));
    if (spec.dtype != "none" && (spec.shape != wanted || other_dtype))
      throw UsageError("--loss " + to_string(loss_) + ": input '" + plan::to_string(spec) + "' must be " +
                       plan::to_string(InputSpec{name, dtype, wanted, std::nullopt}));
  }

  void check_for_kto() const {
    const std::vector<int64_t> rows = spec_of_target().shape;
    if (rows[0] < 2) throw UsageError("--loss kto needs at least 2 rows, because it takes completions of other rows");
    std::vector<int64_t> of_others = {rows[0], 0};
    if (const at::Tensor& tokens = on_host_.at(kTokensOfKl); tokens.dim() == 2) of_others[1] = tokens.size(1);
    check_shape(kTokensOfKl, of_others, "int64");
    if (on_host_.at(kPaddingOfKl).defined() != given_padding().defined())
      throw UsageError("--loss kto takes either both of the inputs 'attention_mask' and 'KL_attention_mask' or none");
    check_length(*std::ranges::find(batch_.specs, kTokensOfKl, &InputSpec::name));
    check_shape("completion_mask", rows, "int64");
    check_shape("label", {rows[0]}, "bool");
    for (const char* name : {"ref_logps", "ref_KL_logps"}) check_shape(name, {rows[0]}, "float32");
    for (const char* name : {kPaddingOfKl, "KL_completion_mask"}) check_shape(name, of_others, "int64");
  }

  void check_for_grpo() const {
    const std::vector<int64_t> rows = spec_of_target().shape;
    std::vector<int64_t> completions = {rows[0], rows[1] - 1};
    if (const at::Tensor& mask = on_host_.at("completion_mask"); mask.dim() == 2)
      completions[1] = std::min(mask.size(1), completions[1]);
    check_shape("completion_mask", completions, "int64");
    check_shape("advantages", {rows[0]}, "float32");
    check_shape("num_items_in_batch", {}, "int64");
    check_shape(kOldLogProbs, completions, "float32");
  }

  void check_pairs() const {
    const std::vector<int64_t> rows = spec_of_target().shape;
    if (rows[0] % 2 != 0)
      throw UsageError("--loss " + to_string(loss_) + " takes pairs: chosen rows, then as many rejected ones; '" +
                       target_ + "' has " + std::to_string(rows[0]) + " rows");
    for (const std::string& name : other_inputs(loss_)) {
      const InputSpec& spec = *std::ranges::find(batch_.specs, name, &InputSpec::name);
      const bool mask = name == "completion_mask";
      const std::vector<int64_t> wanted = mask ? rows : std::vector<int64_t>{rows[0] / 2};
      if (spec.dtype != "none" && (spec.shape != wanted || is_integer(spec.dtype) != mask))
        throw UsageError("--loss " + to_string(loss_) + ": input '" + plan::to_string(spec) + "' must be " +
                         plan::to_string(InputSpec{name, mask ? "int64" : "float32", wanted, std::nullopt}));
    }
  }

  void check_columns() const {
    for (const InputSpec& spec : batch_.specs)
      if (!spec.shape.empty() && !column_of(spec.name).empty() && spec.shape[0] != batch_.specs.front().shape.at(0))
        throw UsageError("--loss embedding takes a positive for each anchor: '" +
                         plan::to_string(batch_.specs.front()) + "' and '" + plan::to_string(spec) +
                         "' have different numbers of rows");
  }

  // Without padding, transformers takes another code path, without a mask.
  static void check_padding(const std::string& name, const at::Tensor& mask) {
    if (mask.to(at::kBool).all().item<bool>())
      throw UsageError("input '" + name + "' has no padding, it is 1 everywhere: leave " +
                       (column_of(name).empty() ? "it out" : "out both masks, or pad a row of each column"));
  }

  // Inputs of a cast model follow its dtype, those of the loss do not.
  bool follows_model(const std::string& name, const std::string& dtype) const {
    return dtype == "float32" && !request_.training.dtype.empty() && argument(name) && name != target_;
  }

  at::Tensor prepared(const std::string& name, const at::Tensor& tensor) const {
    if (!follows_model(name, name_of(tensor.scalar_type()))) return tensor;
    return tensor.to(scalar_type(request_.training.dtype));
  }

  void make_up(InputSpec spec) {
    if (follows_model(spec.name, spec.dtype)) spec.dtype = request_.training.dtype;
    auto type = scalar_type(spec.dtype);
    const std::vector<int64_t> shape = of_all_ranks(spec.shape);
    at::Tensor tensor;
    if (at::isFloatingType(type)) {
      tensor = at::empty(shape, at::kFloat).normal_(0, 1, generator_).to(type);
    } else {
      if (auto rows = embedding_rows(model_, slot(spec.name)); rows && spec.below.value_or(2) > *rows)
        throw UsageError("input '" + plan::to_string(spec) + "': the embedding it goes into has " +
                         std::to_string(*rows) + " rows");
      tensor = at::empty(shape, at::kLong).random_(0, spec.below.value_or(2), generator_).to(type);
    }
    add(spec.name, spec, rows_of_this_rank(tensor));
  }

  // Each rank has its rows of one global batch. The batch is that of one rank with as many samples.
  std::vector<int64_t> of_all_ranks(std::vector<int64_t> shape) const {
    if (!shape.empty()) shape[0] *= request_.training.ranks;
    return shape;
  }
  at::Tensor rows_of_this_rank(const at::Tensor& tensor) const {
    if (request_.training.ranks == 1 || tensor.dim() == 0) return tensor;
    const int64_t rows = tensor.size(0) / request_.training.ranks;
    return tensor.narrow(0, request_.envelope.rank * rows, rows).clone();
  }

  void make_up_like_tokens(const std::string& name) {
    for (const InputSpec& spec : batch_.specs)
      if (is_integer(spec.dtype)) {
        InputSpec same = spec;
        same.name = name;
        if (!same.below) same.below = described_.file.at(spec.name).max().item<int64_t>() + 1;
        return make_up(same);
      }
    if (auto* input = argument(name); input && input->described) return make_up_described(*input->described);
    if (described_.specs.empty() && argument(name))
      if (auto guess = guess_input(model_, slot(name), name); guess && is_integer(guess->dtype))
        return make_up_guess(*guess);
    throw UsageError("the loss next_token needs an integer input to compare with; describe '" + name +
                     "', as in --input '" + name + ":int64[2,128]<1000'");
  }

  void make_target() {
    at::Tensor answer = run_once();
    InputSpec spec{target_, "float32", answer.sizes().vec(), std::nullopt};
    if (loss_ == LossKind::cross_entropy) {
      if (answer.dim() == 0) throw UsageError("the loss cross_entropy needs classes, the model returns one number");
      int64_t dimension = std::min<int64_t>(1, answer.dim() - 1);  // [batch, classes, ...] or [classes]
      spec.dtype = "int64";
      spec.below = answer.size(dimension);
      spec.shape.erase(spec.shape.begin() + dimension);
    }
    make_up(spec);
  }

  at::Tensor run_once() {
    const program::Program plain = with_loss(model_, LossKind::none, "");
    program::BufferAndRngStateGuard restore(model_.state, device_);
    program::Interpreter interpreter(plain);
    at::NoGradGuard no_grad;
    try {
      auto inputs = program::unwritten(batch_.tensors, program::written_inputs(plain));
      return choose(interpreter.run(std::move(inputs)), loss_, request_.training.output);
    } catch (...) {
      rethrow_as_rejection(request_.training, model_.kind, batch_, interpreter.where());
    }
  }

  void count() {
    for (size_t i = 0; i < batch_.specs.size() && batch_.samples == 0; ++i)
      if (!batch_.specs[i].shape.empty()) batch_.samples = batch_.specs[i].shape[0];
    std::set<std::string> counted;  // columns
    for (const InputSpec& spec : batch_.specs)
      if (argument(spec.name) && is_integer(spec.dtype) && spec.shape.size() == 2 &&
          counted.insert(column_of(spec.name)).second)
        batch_.tokens += batch_.samples * check_length(spec);
    batch_.samples /= rows_of_sample(loss_);
    if (documents_ > 0) batch_.samples = documents_;
  }

  int64_t check_length(const InputSpec& tokens) const {
    const int64_t length = tokens.shape[1] / std::max<int64_t>(1, documents_);
    if (model_.longest > 0 && length > model_.longest)
      throw UsageError("sequences of " + std::to_string(length) + " are not supported: beyond " +
                       std::to_string(model_.longest) +
                       " the model's sliding window, positions or their scaling end; say --seq");
    return tokens.shape[1];
  }

  const plan::TrialRequest& request_;
  LossKind loss_;
  const program::Program& model_;
  c10::Device device_;
  int64_t documents_ = 0;           // in the packed row; 0: not packed
  std::vector<std::string> names_;  // inputs of the model, then those that only the loss uses
  bool padded_;
  std::string target_;
  RequestedInputSpecsAndTensors described_;
  at::Generator generator_;  // on the CPU, so that every device gets the same values
  bool pending_target_ = false;
  std::map<std::string, at::Tensor> on_host_;  // tensors of the batch, by name
  TrainingBatch batch_;
};

}  // namespace

TrainingBatch make_batch(const plan::TrialRequest& request, LossKind loss, const program::Program& model,
                         c10::Device device) {
  return BatchMaker(request, loss, model, device).make();
}

}  // namespace memtune::frontend
