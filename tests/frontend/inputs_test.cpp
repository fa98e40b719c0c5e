// A trial means nothing with wrong inputs. Names, shapes and numbers must be the requested ones, and an error must show
// the line to write instead.
#include "core/model/frontend/inputs.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/model/frontend/columns.h"
#include "core/model/frontend/requested_input_specs_and_tensors.h"
#include "core/model/frontend/torchscript/lowering.h"
namespace memtune::frontend::inputs_test {
namespace {

using torch::jit::Module;

const c10::Device kCpu(c10::kCPU);

Module tokens_model() {
  Module module("Model");
  module.register_parameter("table", at::ones({16, 4}).requires_grad_(), false);
  module.define(
      "def forward(self, tokens, mask: Optional[Tensor] = None):\n    return torch.embedding(self.table, tokens)\n");
  return module;
}

Module features_model() {
  Module module("Model");
  module.register_parameter("weight", at::ones({3, 5}).requires_grad_(), false);
  module.register_buffer("calls", at::zeros({}));
  module.define("def forward(self, x):\n    self.calls += 1\n    return torch.linear(x, self.weight)\n");
  return module;
}

plan::TrialRequest request(const std::vector<std::string>& inputs) {
  plan::TrialRequest result;
  for (const auto& text : inputs) result.model.inputs.push_back(plan::parse_input_spec(text));
  return result;
}

TrainingBatch batch(const plan::TrialRequest& request, const Module& module, LossKind loss) {
  return make_batch(request, loss, lower_module(module, kCpu), kCpu);
}

std::vector<std::string> specs(const TrainingBatch& batch) {
  std::vector<std::string> result;
  for (const auto& spec : batch.specs) result.push_back(plan::to_string(spec));
  return result;
}

using Texts = std::vector<std::string>;

std::string refusal(const plan::TrialRequest& request, const Module& module, LossKind loss) {
  try {
    batch(request, module, loss);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string target_of(const plan::TrialRequest& request, LossKind loss, const Texts& names) {
  std::vector<program::ModelOrLossInputDeclaration> inputs;
  for (const std::string& name : names) inputs.push_back({name});
  return frontend::choose_target(request.model, request.training, loss, inputs);
}

TEST_CASE("dpo counts pairs, and makes its mask and reference log probabilities") {
  plan::TrialRequest asked = request({"tokens:int64[4,6]<16"});
  const TrainingBatch made = batch(asked, tokens_model(), LossKind::dpo);
  CHECK(specs(made) == Texts{"tokens:int64[4,6]<16", "mask:none[]", "completion_mask:int64[4,6]",
                             "ref_chosen_logps:float32[2]", "ref_rejected_logps:float32[2]"});
  CHECK((made.samples == 2 && made.tokens == 24));
  CHECK(made.tensors[2].sum().item<int64_t>() == 12);
  CHECK(made.tensors[3].equal(at::full({2}, -3.0F)));
  asked.training.batch = 3;
  CHECK(specs(batch(asked, tokens_model(), LossKind::dpo))[0] == "tokens:int64[6,6]<16");
}

TEST_CASE("dpo refuses other inputs than pairs") {
  CHECK(refusal(request({"tokens:int64[3,6]<16"}), tokens_model(), LossKind::dpo) ==
        "--loss dpo takes pairs: chosen rows, then as many rejected ones; 'tokens' has 3 rows");
  CHECK(refusal(request({"tokens:int64[4,6]<16", "ref_chosen_logps:float32[4]"}), tokens_model(), LossKind::dpo) ==
        "--loss dpo: input 'ref_chosen_logps:float32[4]' must be ref_chosen_logps:float32[2]");
  CHECK(refusal(request({"x:float32[4,5]"}), features_model(), LossKind::dpo) ==
        "the loss needs an integer target, and no input is of integers; set --target NAME, or another --loss");
}

TEST_CASE("kto makes labels of both kinds and rows of others") {
  const TrainingBatch made = batch(request({"tokens:int64[3,6]<16"}), tokens_model(), LossKind::kto);
  CHECK(specs(made) == Texts{"tokens:int64[3,6]<16", "mask:none[]", "completion_mask:int64[3,6]", "label:bool[3]",
                             "ref_logps:float32[3]", "ref_KL_logps:float32[3]", "KL_input_ids:int64[3,6]",
                             "KL_attention_mask:none[]", "KL_completion_mask:int64[3,6]"});
  CHECK((made.samples == 3 && made.tokens == 18));
  CHECK(made.tensors[3].equal(at::tensor({1, 0, 1}).to(at::kBool)));
  CHECK(made.tensors[6].equal(made.tensors[0].roll(1, 0)));
}

TEST_CASE("kto refuses other inputs than its trainer's") {
  const auto refused = [](const Texts& specs) { return refusal(request(specs), tokens_model(), LossKind::kto); };
  CHECK(refused({"tokens:int64[1,6]<16"}) ==
        "--loss kto needs at least 2 rows, because it takes completions of other rows");
  CHECK(refused({"tokens:int64[2,6]<16", "label:float32[2]"}) ==
        "--loss kto: input 'label:float32[2]' must be label:bool[2]");
  CHECK(refused({"tokens:int64[2,6]<16", "label:int64[2]<2", "KL_completion_mask:int64[2,5]"}) ==
        "--loss kto: input 'KL_completion_mask:int64[2,5]' must be KL_completion_mask:int64[2,6]");
  CHECK(refused({"tokens:int64[2,6]<16", "KL_attention_mask:int64[2,6]"}) ==
        "--loss kto takes either both of the inputs 'attention_mask' and 'KL_attention_mask' or none");
  CHECK(refused({"tokens:int64[2,6]<16", "KL_input_ids:int64[2,6]<17", "advantages:float32[2]"}) ==
        "unknown input 'advantages'. Known: tokens, mask, completion_mask, label, ref_logps, ref_KL_logps, "
        "KL_input_ids, KL_attention_mask, KL_completion_mask");
  CHECK(refused({"tokens:int64[2,6]<16", "KL_input_ids:int64[2,6]<99"})
            .starts_with("input 'KL_input_ids:int64[2,6]<99': the embedding it goes into has 16 rows"));
}

TEST_CASE("grpo makes completions of half a row and takes other lengths") {
  const auto of = [](const Texts& specs) { return batch(request(specs), tokens_model(), LossKind::grpo); };
  const TrainingBatch made = of({"tokens:int64[2,7]<16"});
  CHECK(specs(made) == Texts{"tokens:int64[2,7]<16", "mask:none[]", "completion_mask:int64[2,4]",
                             "advantages:float32[2]", "num_items_in_batch:int64[]", "old_per_token_logps:none[]"});
  CHECK(made.tensors[4].item<int64_t>() == 8);
  CHECK(specs(of({"tokens:int64[2,7]<16", "completion_mask:int64[2,6]<2", "old_per_token_logps:float32[2,6]"}))[5] ==
        "old_per_token_logps:float32[2,6]");
  CHECK(refusal(request({"tokens:int64[2,7]<16", "completion_mask:int64[2,7]<2"}), tokens_model(), LossKind::grpo) ==
        "--loss grpo: input 'completion_mask:int64[2,7]<2' must be completion_mask:int64[2,6]");
}

TEST_CASE("losses over completions refuse packed rows, and kto other rows that are too long") {
  auto packed = request({"tokens:int64[2,6]<16"});
  packed.training.pack = true;
  CHECK(refusal(packed, tokens_model(), LossKind::grpo) ==
        "--loss grpo takes a row for each completion: leave out --pack");
  program::Program model = lower_module(tokens_model(), kCpu);
  model.longest = 6;
  const auto asked = request({"tokens:int64[2,6]<16", "KL_input_ids:int64[2,7]<16", "KL_completion_mask:int64[2,7]"});
  CHECK_THROWS_WITH_AS(make_batch(asked, LossKind::kto, model, kCpu), doctest::Contains("sequences of 7"), UsageError);
}

TEST_CASE("reward counts pairs, and may have margins") {
  plan::TrialRequest asked = request({"tokens:int64[4,6]<16"});
  const TrainingBatch made = batch(asked, tokens_model(), LossKind::reward);
  CHECK(specs(made) == Texts{"tokens:int64[4,6]<16", "mask:none[]", "margin:none[]"});
  CHECK((made.samples == 2 && made.tokens == 24));
  asked = request({"tokens:int64[4,6]<16", "margin:float32[2]"});
  CHECK(specs(batch(asked, tokens_model(), LossKind::reward)).back() == "margin:float32[2]");
  CHECK(refusal(request({"tokens:int64[4,6]<16", "margin:float32[4]"}), tokens_model(), LossKind::reward) ==
        "--loss reward: input 'margin:float32[4]' must be margin:float32[2]");
  CHECK(refusal(request({"tokens:int64[3,6]<16"}), tokens_model(), LossKind::reward) ==
        "--loss reward takes pairs: chosen rows, then as many rejected ones; 'tokens' has 3 rows");
}

TrainingBatch batch_in_columns(const plan::TrialRequest& request) {
  return make_batch(request, LossKind::embedding, in_columns(lower_module(tokens_model(), kCpu)), kCpu);
}

TEST_CASE("columns have inputs and lengths of their own, and equally many rows") {
  plan::TrialRequest asked = request({"anchor_tokens:int64[3,5]<16", "positive_tokens:int64[3,7]<16"});
  const TrainingBatch made = batch_in_columns(asked);
  CHECK(specs(made) == Texts{"anchor_tokens:int64[3,5]<16", "anchor_mask:none[]", "positive_tokens:int64[3,7]<16",
                             "positive_mask:none[]"});
  CHECK((made.samples == 3 && made.tokens == 36));
  CHECK_FALSE(made.tensors[0].equal(made.tensors[2].narrow(1, 0, 5)));
  CHECK(known_sequence(asked.model, asked.training) == 7);
  asked.training.batch = 4;
  CHECK(specs(batch_in_columns(asked))[2] == "positive_tokens:int64[4,7]<16");
  CHECK_THROWS_WITH_AS(batch_in_columns(request({"anchor_tokens:int64[3,5]<16", "positive_tokens:int64[4,7]<16"})),
                       "--loss embedding takes a positive for each anchor: 'anchor_tokens:int64[3,5]<16' and "
                       "'positive_tokens:int64[4,7]<16' have different numbers of rows",
                       UsageError);
}

TEST_CASE("the target falls back from the named input to labels then target then the loss's default") {
  auto none = request({});
  CHECK(target_of(none, LossKind::returned, {"x", "labels"}) == "");
  CHECK(target_of(none, LossKind::mse, {"x", "labels"}) == "labels");
  CHECK(target_of(request({"x:float32[2]", "target:float32[2]"}), LossKind::next_token, {"x"}) == "target");
  CHECK(target_of(none, LossKind::next_token, {"ids", "mask"}) == "ids");
  CHECK(target_of(request({"x:float32[2]", "ids:int64[2,3]"}), LossKind::next_token, {"x", "ids"}) == "ids");
  CHECK(target_of(none, LossKind::cross_entropy, {"x"}) == "target");
  auto named = request({"x:float32[2]", "y:float32[2]"});
  named.training.target = "y";
  CHECK(target_of(named, LossKind::mse, {"x"}) == "y");
  named.training.target = "z";
  CHECK_THROWS_WITH_AS(target_of(named, LossKind::next_token, {"x"}), "unknown target 'z'. Known: x, y", UsageError);
}

TEST_CASE("synthetic integers lie below their bound and depend only on the seed") {
  auto asked = request({"tokens:int64[3,50]<7"});
  TrainingBatch a = batch(asked, tokens_model(), LossKind::next_token),
                b = batch(asked, tokens_model(), LossKind::next_token);
  CHECK(specs(a) == Texts{"tokens:int64[3,50]<7", "mask:none[]"});
  CHECK(a.tensors[0].min().item<int64_t>() == 0);
  CHECK(a.tensors[0].max().item<int64_t>() == 6);
  CHECK_FALSE(a.tensors[1].defined());
  CHECK(a.samples == 3);
  CHECK(a.tokens == 150);
  CHECK(at::equal(a.tensors[0], b.tensors[0]));
  asked.training.seed = 1;
  CHECK_FALSE(at::equal(a.tensors[0], batch(asked, tokens_model(), LossKind::next_token).tensors[0]));
}

TEST_CASE("--batch and --seq replace the first and the second dimension") {
  auto asked = request({"tokens:int64[3,50]<7"});
  asked.training.batch = 2;
  asked.training.sequence = 9;
  CHECK(batch(asked, tokens_model(), LossKind::next_token).tensors[0].sizes() == at::IntArrayRef{2, 9});
}

TEST_CASE("a spec without a name is matched by position") {
  auto asked = request({":float32[4,5]", ":int64[4]<3"});
  CHECK(specs(batch(asked, features_model(), LossKind::cross_entropy)) == Texts{"x:float32[4,5]", "target:int64[4]<3"});
}

TEST_CASE("synthetic floats have the model's dtype but targets do not") {
  auto asked = request({"x:float32[4,5]", "target:float32[4,3]"});
  asked.training.dtype = "bfloat16";
  Module module = features_model();
  module.attr("weight").toTensor().set_data(at::ones({3, 5}, at::kBFloat16));
  CHECK(specs(batch(asked, module, LossKind::mse)) == Texts{"x:bfloat16[4,5]", "target:float32[4,3]"});
}

TEST_CASE("an undescribed target is derived from the model's output and this run changes no state") {
  Module module = features_model();
  CHECK(specs(batch(request({"x:float32[4,5]"}), module, LossKind::cross_entropy)) ==
        Texts{"x:float32[4,5]", "target:int64[4]<3"});
  CHECK(specs(batch(request({"x:float32[4,7,5]"}), module, LossKind::cross_entropy))[1] == "target:int64[4,3]<7");
  CHECK(specs(batch(request({"x:float32[4,5]"}), module, LossKind::mse))[1] == "target:float32[4,3]");
  CHECK(module.attr("calls").toTensor().item<float>() == 0);
}

TEST_CASE("without a description shapes are guessed from the layer that reads the input") {
  CHECK(specs(batch(request({}), tokens_model(), LossKind::next_token))[0] == "tokens:int64[2,128]<16");
  CHECK(specs(batch(request({}), features_model(), LossKind::mse)) == Texts{"x:float32[8,5]", "target:float32[8,3]"});
  Module images("Model");
  images.register_parameter("weight", at::ones({4, 3, 3, 3}).requires_grad_(), false);
  images.define("def forward(self, x):\n    return torch.conv2d(x, self.weight).mean([2, 3])\n");
  CHECK(specs(batch(request({}), images, LossKind::cross_entropy)) ==
        Texts{"x:float32[8,3,32,32]", "target:int64[8]<4"});
  Module reshaped("Model");
  reshaped.register_parameter("weight", at::ones({16, 4}).requires_grad_(), false);
  reshaped.define(
      "def forward(self, ids):\n    return torch.embedding(self.weight, ids.view([-1, ids.size(1)]).long())\n");
  CHECK(specs(batch(request({}), reshaped, LossKind::mse))[0] == "ids:int64[2,128]<16");
}

TEST_CASE("the error for an input that cannot be guessed shows the line to write") {
  Module module("Model");
  module.define("def forward(self, x):\n    return torch.tanh(x)\n");
  CHECK(refusal(request({}), module, LossKind::mse) ==
        "input 'x' is not described; say what it is, as in --input 'x:int64[2,128]<1000' or --input "
        "'x:float32[8,3,224,224]'");
}

TEST_CASE("unknown and surplus and repeated inputs are refused") {
  CHECK(refusal(request({"token:int64[2,3]"}), tokens_model(), LossKind::returned) ==
        "unknown input 'token'; did you mean 'tokens'? Known: tokens, mask");
  CHECK(refusal(request({":float32[1,5]", ":float32[1,3]", ":float32[1]"}), features_model(), LossKind::mse) ==
        "there are 3 inputs, the model takes 2: x, target");
  CHECK(refusal(request({"x:float32[1,5]", "x:float32[1,5]"}), features_model(), LossKind::mse) ==
        "input 'x' is described twice");
}

TEST_CASE("numbers outside the embedding are refused before they crash the process") {
  CHECK(refusal(request({"tokens:int64[2,3]<17"}), tokens_model(), LossKind::next_token) ==
        "input 'tokens:int64[2,3]<17': the embedding it goes into has 16 rows");
}

TEST_CASE("next_token without tokens is refused") {
  CHECK(refusal(request({"x:float32[1,5]"}), features_model(), LossKind::next_token) ==
        "the loss needs an integer target, and no input is of integers; set --target NAME, or another --loss");
  CHECK(refusal(request({"token:int64[2,3]<16"}), tokens_model(), LossKind::next_token) ==
        "unknown input 'token'; did you mean 'tokens'? Known: tokens, mask");
}

TEST_CASE("the error for a rejected input quotes the model's message") {
  std::string text = refusal(request({"x:float32[4,6]"}), features_model(), LossKind::cross_entropy);
  CHECK(text.starts_with("the model rejects x:float32[4,6]: "));
  CHECK(text.find('\n') == std::string::npos);
}

class InputsFile {
 public:
  InputsFile(const std::string& header, const std::string& data) {
    uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    std::ofstream(path, std::ios::binary) << bytes + header + data;
  }
  ~InputsFile() { std::filesystem::remove(path); }
  std::string path = std::filesystem::temp_directory_path() / ("memtune-inputs-" + std::to_string(::getpid()));
};

TEST_CASE("tensors of an inputs file are used unchanged and missing ones come from specs") {
  InputsFile file(R"({"tokens": {"dtype": "U8", "shape": [1, 2], "data_offsets": [0, 2]}})", "\x03\x05");
  auto asked = request({"mask:float32[1,2]"});
  asked.model.inputs_file = file.path;
  asked.training.batch = 9;
  Module module = tokens_model();
  TrainingBatch made = batch(asked, module, LossKind::returned);
  CHECK(specs(made) == Texts{"tokens:uint8[1,2]", "mask:float32[9,2]"});
  CHECK(at::equal(made.tensors[0], at::tensor({3, 5}, at::kByte).view({1, 2})));
}

TEST_CASE("numbers of an inputs file outside the embedding are refused") {
  InputsFile file(R"({"tokens": {"dtype": "U8", "shape": [1, 2], "data_offsets": [0, 2]}})", "\x03\x10");
  auto asked = request({});
  asked.model.inputs_file = file.path;
  CHECK(refusal(asked, tokens_model(), LossKind::returned) ==
        "input 'tokens' has numbers from 3 to 16, the embedding it goes into has 16 rows");
}

}  // namespace
}  // namespace memtune::frontend::inputs_test
