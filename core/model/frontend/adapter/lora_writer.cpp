#include "core/model/frontend/adapter/lora_writer.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/frontend/adapter/linear_and_embedding_layer_finder.h"
#include "core/model/frontend/adapter/lora_factor_provider.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/ops/autocast.h"

namespace memtune::frontend {
namespace {

using program::Op;

constexpr char kDtype[] = "prim::dtype";
constexpr char kAdd[] = "aten::add";

at::ScalarType adapter_type(const at::Tensor& weight) {
  const at::ScalarType held = weight.scalar_type();
  return held == at::kDouble ? held : at::kFloat;
}

bool is_meta(const program::Program& program) {
  return std::ranges::any_of(program.state.parameters, [](const auto& named) { return named.second.is_meta(); });
}

class LoraWriter {
 public:
  LoraWriter(program::Program& program, const model::LoraConfig& lora, int64_t seed)
      : program_(program), lora_(lora), layers_(program), emit_(program), factors_(lora, seed, is_meta(program)) {}

  void write() {
    const size_t modules = program_.regions.size();  // adapters add regions
    freeze();
    note_biases(program_.body);
    emit_.rewrite([this](Op op) {
      if (const auto before = without_bias_.find(op.inputs.empty() ? program::Slot{} : op.inputs[0]);
          before != without_bias_.end() && op.name == kAdd) {
        const auto [layer, x] = before->second;
        return adapt(std::move(op), layer, x);
      }
      const auto layer = layers_.find(op);
      const auto embedding = layers_.find_embedding(op);
      if (layer && lora_.adapts(layer->path, layer->is_head) && biased_.contains(op.outputs[0])) {
        without_bias_[op.outputs[0]] = {*layer, Value{op.inputs[layer->input()]}};
        emit_.keep(std::move(op));
      } else if (layer && lora_.adapts(layer->path, layer->is_head)) {
        const Value x{op.inputs[layer->input()]};
        adapt(std::move(op), *layer, x);
      } else if (embedding && !lora_.all_linear && lora_.adapts(embedding->path, false))
        adapt(std::move(op), *embedding);
      else
        emit_.keep(std::move(op));
    });
    check_modules(modules);
    check_targets();
    train_biases();
    factors_.check_all_used();
  }

 private:
  void freeze() {
    for (auto& [name, parameter] : program_.state.parameters) parameter.requires_grad_(false);
    program_.state.adapted = true;
  }

  // Finds the results of layers that another op adds the layer's bias to: those of FalconLinear.
  void note_biases(const program::ProgramOrControlFlowBody& body) {
    for (const Op& op : body.ops) {
      for (const program::ProgramOrControlFlowBody& inner : op.bodies) note_biases(inner);
      if (op.name == kAdd && is_bias(program_.regions[op.region], program_.constants[op.inputs[1]]))
        biased_.insert(op.inputs[0]);
    }
  }

  bool is_bias(const program::ModuleCallTreeNode& region, const c10::IValue& added) const {
    return added.isTensor() && std::ranges::any_of(program_.state.parameters, [&](const auto& named) {
             return named.second.is_same(added.toTensor()) && named.first == region.path + ".bias";
           });
  }

  // `op` ends the layer, and `x` is the layer's input. In peft's order: the layer; its input cast to the adapter's
  // dtype, dropout, both factors, scale, addition.
  void adapt(Op op, const LinearLayer& layer, Value x) {
    const program::Slot result = op.outputs[0];
    Value y = emit_.keep_aside(std::move(op));
    if (layer.form == LinearWeightLayoutOrQuantization::in_4_bits) y = emit_.op("aten::clone", "", {y});
    const auto [down, up] = factors(layer.path, layer.weight, kLinearFactors, layer.rows, layer.columns);
    Value z = emit_.op("aten::to", "dtype", {x, layer.quantized() ? without_autocast(down, x) : dtype_of(down)});
    if (lora_.dropout > 0) z = emit_.op("aten::dropout", "", {z, lora_.dropout, true});
    z = linear(z, down, layer.path + ".lora_A");
    z = linear(z, up, layer.path + ".lora_B");
    z = emit_.op("aten::mul", "Scalar", {z, lora_.scale_of(layer.path)});
    if (layer.quantized()) {
      z = emit_.op("aten::to", "dtype", {z, without_autocast(y, z)});
      emit_.op("aten::add", "Tensor", {y, z});
    } else {
      add_in_type_of(y, z);
    }
    emit_.bind_result(result);
  }

  // peft applies neither dropout nor a cast here.
  void adapt(Op op, const EmbeddingLayer& layer) {
    if (const program::ModuleCallTreeNode& region = program_.regions[op.region];
        region.path == layer.path && region.type != "Embedding")
      throw UsageError("--lora: '" + layer.path + "' is a " + region.type +
                       "; of embeddings only plain ones get adapters");
    const program::Slot result = op.outputs[0];
    std::vector<ValueOrConstantOpArgument> arguments;
    for (const program::Slot input : op.inputs) arguments.emplace_back(Value{input});
    const Value y = emit_.keep_aside(std::move(op));
    const auto [down, up] =
        factors(layer.path, layer.weight, kEmbeddingFactors, layer.weight.size(1), layer.weight.size(0));
    arguments[0] = emit_.op("aten::numpy_T", "", {down});
    const Value turned = emit_.op("aten::numpy_T", "", {up});
    Value z = emit_.op("aten::embedding", "", std::move(arguments));
    z = emit_.op("aten::matmul", "", {z, turned});
    add_in_type_of(y, emit_.op("aten::mul", "Scalar", {z, lora_.scale_of(layer.path)}));
    emit_.bind_result(result);
  }

  void add_in_type_of(Value y, Value z) {
    const Value type = dtype_of(y);
    emit_.op("aten::to", "dtype", {emit_.op("aten::add", "Tensor", {y, z}), type});
  }

  Value linear(Value x, Value weight, const std::string& path) {
    const ProgramEmitter::InRegion region(emit_, path, "Linear");
    return emit_.op("aten::linear", "", {x, weight});
  }

  // Known only at run time: autocast or the input's dtype may change it.
  Value dtype_of(Value x) {
    const auto run = [](program::Stack& stack) { stack.back() = stack.back().toTensor().scalar_type(); };
    return emit_.call({kDtype, nullptr, run}, {x}, 1)[0];
  }

  // Returns the dtype of `wanted`. Under autocast, which casts by itself, returns that of `otherwise`. Like peft,
  // checks CUDA's autocast only, which that of the meta device stands for.
  Value without_autocast(Value wanted, Value otherwise) {
    const auto run = [](program::Stack& stack) {
      const at::Tensor otherwise = stack.back().toTensor();
      stack.pop_back();
      const bool casts = at::autocast::is_autocast_enabled(c10::kCUDA) || ops::AutocastState::now(c10::kMeta).enabled;
      stack.back() = (casts ? otherwise : stack.back().toTensor()).scalar_type();
    };
    return emit_.call({kDtype, nullptr, run}, {wanted, otherwise}, 1)[0];
  }

  // A layer that runs twice has one pair of factors.
  std::pair<Value, Value> factors(const std::string& path, const at::Tensor& weight,
                                  const PeftLoraFactorNameSuffixes& names, int64_t rows, int64_t columns) {
    const auto known = adapted_.find(path);
    if (known != adapted_.end()) return known->second;
    if (weight.is_floating_point()) load_saved(path + ".weight", weight);
    const int64_t rank = lora_.rank_of(path);
    const auto options = at::TensorOptions(adapter_type(weight)).device(weight.device());
    const auto add = [&](const char* which, at::IntArrayRef shape) {
      return emit_.parameter(kLoraPrefix + path + which, factors_.make(path, which, shape, options));
    };
    const Value down = add(names.down, {rank, columns});
    return adapted_[path] = {down, add(names.up, {rows, rank})};
  }

  // A target without a layer is a user's mistake, except from a file, which may be made for several models.
  void check_targets() {
    std::vector<std::string> without;
    for (const std::string& name : lora_.targets.names)
      if (!std::ranges::any_of(adapted_, [&](const auto& pair) {
            return model::ModuleSelector{{name}, {}}.has(pair.first);
          }))
        without.push_back(name);
    if (!adapted_.empty() && (without.empty() || !lora_.file.empty())) return note(without);
    if (without.empty()) without.push_back(lora_.targets.pattern.value_or("all-linear"));
    throw UsageError("--lora: no linear layer is a target by '" + join(without, "', '") +
                     "'. Name some of the model's linear layers: " + join(layers_.names(), ", ") +
                     joined_targets(without));
  }

  // Some trainers split the joined layers of a model and adapt the parts.
  std::string joined_targets(const std::vector<std::string>& without) const {
    static const std::map<std::string, std::string> kJoined = {{"q_proj", "qkv_proj"},
                                                               {"k_proj", "qkv_proj"},
                                                               {"v_proj", "qkv_proj"},
                                                               {"gate_proj", "gate_up_proj"},
                                                               {"up_proj", "gate_up_proj"}};
    const std::vector<std::string> names = layers_.names();
    for (const std::string& name : without)
      if (const auto joined = kJoined.find(name);
          joined != kJoined.end() && std::ranges::count(names, joined->second) > 0)
        return ". An adapter of " + joined->second + " is another than one of its part " + name +
               (std::ranges::count(names, "qkv_proj") > 0  // a Phi-3, which is else as a mistral
                    ? ". For those of the parts, as torchtune trains Phi-3, give --model a copy of config.json with "
                      "the "
                      "model_type mistral, which has them apart"
                    : "");
    return "";
  }

  // Throws UsageError for a target module that peft would refuse to adapt.
  void check_modules(size_t count) const {
    if (lora_.all_linear) return;
    for (size_t i = 0; i < count; ++i)
      if (const auto& [path, type, parent] = program_.regions[i];
          !path.empty() && !adapted_.contains(path) && lora_.adapts(path, false))
        throw UsageError("--lora: the targets name '" + path + "', which is a " + type +
                         ": adapters are built for linear layers, Conv1D and embeddings");
  }

  void note(const std::vector<std::string>& without) {
    if (!without.empty())
      program_.notes.push_back("of the adapter's target_modules the model lacks " + join(without, ", "));
  }

  void train_biases() {
    if (lora_.bias == model::LoraBias::none) return;
    for (auto& [name, parameter] : program_.state.parameters) {
      const bool is_of_adapted = name.ends_with(".bias") && adapted_.contains(name.substr(0, name.size() - 5));
      if (lora_.bias == model::LoraBias::all ? name.find("bias") != std::string::npos : is_of_adapted)
        train(name, parameter);
    }
  }

  void train(const std::string& name, at::Tensor& parameter) {
    load_saved(name, parameter);
    parameter.requires_grad_();
  }

  // The adapter's file may also have weights of the model.
  void load_saved(const std::string& name, const at::Tensor& parameter) {
    if (program_.state.host_weights) program_.state.host_weights->restore(parameter);
    factors_.load_saved(name, parameter);
  }

  program::Program& program_;
  const model::LoraConfig& lora_;
  LinearAndEmbeddingLayerFinder layers_;
  ProgramEmitter emit_;
  LoraFactorProvider factors_;
  std::map<std::string, std::pair<Value, Value>> adapted_;  // by path of the layer
  std::set<program::Slot> biased_;                          // results that lack their layer's bias
  std::map<program::Slot, std::pair<LinearLayer, Value>>
      without_bias_;  // those of adapted layers, with layer and input
};

}  // namespace

void add_lora(program::Program& program, const model::LoraConfig& lora, int64_t seed) {
  LoraWriter(program, lora, seed).write();
}

}  // namespace memtune::frontend
