#include "core/frontend/adapter/lora_writer.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/frontend/adapter/linear_layers.h"
#include "core/frontend/emitter.h"
#include "core/frontend/safetensors.h"

namespace memtune::frontend {
namespace {

using program::Op;

constexpr char kDtype[] = "prim::dtype";

// As peft names what it wraps.
constexpr char kPrefix[] = "base_model.model.";

at::ScalarType adapter_type(const LinearLayer& layer) {
  const at::ScalarType held = layer.weight.scalar_type();
  return layer.quantized || held == at::kHalf || held == at::kBFloat16 ? at::kFloat : held;
}

// The factors of one layer.
class Factors {
 public:
  Factors(const config::Lora& lora, int64_t seed)
      : lora_(lora), generator_(at::globalContext().defaultGenerator(c10::kCPU).clone()) {
    generator_.set_current_seed(static_cast<uint64_t>(seed));
    if (!lora.weights.empty())
      for (auto& [name, tensor] : read_safetensors(lora.weights)) given_[name] = tensor;
  }

  // "lora_A" or "lora_B" of the layer.
  at::Tensor make(const std::string& path, const std::string& which, at::IntArrayRef shape, at::TensorOptions options) {
    at::Tensor factor = lora_.weights.empty() ? drawn(which == "lora_A", shape) : given(path, which, shape);
    return factor.to(options).requires_grad_();
  }

 private:
  at::Tensor drawn(bool is_first, at::IntArrayRef shape) {
    if (!is_first && lora_.start != config::LoraStart::noise) return at::zeros(shape, at::kFloat);
    at::Tensor factor = at::empty(shape, at::kFloat);
    if (lora_.start == config::LoraStart::gaussian)
      return factor.normal_(0, 1.0 / static_cast<double>(shape[0]), generator_);
    const double bound = 1 / std::sqrt(static_cast<double>(shape[1]));
    return factor.uniform_(-bound, bound, generator_);
  }

  // A model that was recorded within another has one part more in front.
  at::Tensor given(std::string path, const std::string& which, at::IntArrayRef shape) const {
    const std::string wanted = kPrefix + path + "." + which + ".weight";
    auto found = given_.find(wanted);
    for (size_t dot = path.find('.'); found == given_.end() && dot != std::string::npos; dot = path.find('.')) {
      path.erase(0, dot + 1);
      found = given_.find(kPrefix + path + "." + which + ".weight");
    }
    const std::string file = lora_.weights.filename().string();
    if (found == given_.end()) throw UsageError(file + " has no tensor '" + wanted + "'");
    if (found->second.sizes() != shape)
      throw UsageError("'" + found->first + "' of " + file + " is " + c10::str(found->second.sizes()) + ", here " +
                       c10::str(shape));
    return found->second;
  }

  const config::Lora& lora_;
  at::Generator generator_;
  std::map<std::string, at::Tensor> given_;
};

class LoraWriter {
 public:
  LoraWriter(program::Program& program, const config::Lora& lora, int64_t seed)
      : program_(program), lora_(lora), layers_(program), emit_(program), factors_(lora, seed) {}

  void write() {
    freeze();
    emit_.rewrite([this](Op op) {
      const auto layer = layers_.find(op);
      if (layer && lora_.adapts(layer->path, layer->is_head))
        adapt(std::move(op), *layer);
      else
        emit_.keep(std::move(op));
    });
    check_targets();
    train_biases();
  }

 private:
  void freeze() {
    for (auto& [name, parameter] : program_.state.parameters) parameter.requires_grad_(false);
    program_.state.adapted = true;
  }

  // In peft's order: the layer; its input in the adapter's type, dropped out, through both factors, scaled, added.
  void adapt(Op op, const LinearLayer& layer) {
    const program::Slot result = op.outputs[0];
    const Value x{op.inputs[0]};
    Value y = emit_.keep_aside(std::move(op));
    if (layer.quantized) y = emit_.op("aten::clone", "", {y});
    const auto [down, up] = factors(layer);
    Value z = emit_.op("aten::to", "dtype", {x, layer.quantized ? without_autocast(down, x) : dtype_of(down)});
    if (lora_.dropout > 0) z = emit_.op("aten::dropout", "", {z, lora_.dropout, true});
    z = linear(z, down, layer.path + ".lora_A");
    z = linear(z, up, layer.path + ".lora_B");
    z = emit_.op("aten::mul", "Scalar", {z, lora_.scale_of(layer.path)});
    if (layer.quantized) {
      z = emit_.op("aten::to", "dtype", {z, without_autocast(y, z)});
      emit_.op("aten::add", "Tensor", {y, z});
    } else {
      const Value type = dtype_of(y);
      emit_.op("aten::to", "dtype", {emit_.op("aten::add", "Tensor", {y, z}), type});
    }
    emit_.stand_for(result);
  }

  Value linear(Value x, Value weight, const std::string& path) {
    const Emitter::InRegion region(emit_, path, "Linear");
    return emit_.op("aten::linear", "", {x, weight});
  }

  // Known when it runs: under autocast, or of layers whose input's type nobody has told.
  Value dtype_of(Value x) {
    const auto run = [](program::Stack& stack) { stack.back() = stack.back().toTensor().scalar_type(); };
    return emit_.call({kDtype, nullptr, run}, {x}, 1)[0];
  }

  // That of `wanted`; under autocast, which casts by itself, `otherwise` stays what it is. peft asks for CUDA's alone.
  Value without_autocast(Value wanted, Value otherwise) {
    const auto run = [](program::Stack& stack) {
      const at::Tensor otherwise = stack.back().toTensor();
      stack.pop_back();
      const bool casts = at::autocast::is_autocast_enabled(c10::kCUDA);
      stack.back() = (casts ? otherwise : stack.back().toTensor()).scalar_type();
    };
    return emit_.call({kDtype, nullptr, run}, {wanted, otherwise}, 1)[0];
  }

  // A layer that runs twice has one pair.
  std::pair<Value, Value> factors(const LinearLayer& layer) {
    const auto known = adapted_.find(layer.path);
    if (known != adapted_.end()) return known->second;
    const int64_t rank = lora_.rank_of(layer.path);
    const auto options = at::TensorOptions(adapter_type(layer)).device(layer.weight.device());
    const auto add = [&](const char* which, at::IntArrayRef shape) {
      return emit_.parameter(kPrefix + layer.path + "." + which + ".weight",
                             factors_.make(layer.path, which, shape, options));
    };
    const Value down = add("lora_A", {rank, layer.columns});
    return adapted_[layer.path] = {down, add("lora_B", {layer.rows, rank})};
  }

  // A name that nothing has is a mistake of who typed it; a file may be made for several models.
  void check_targets() {
    std::vector<std::string> without;
    for (const std::string& name : lora_.targets.names)
      if (!std::ranges::any_of(adapted_, [&](const auto& pair) {
            return config::ModuleNames{{name}, {}}.has(pair.first);
          }))
        without.push_back(name);
    if (!adapted_.empty() && (without.empty() || !lora_.file.empty())) return note(without);
    if (without.empty()) without.push_back(lora_.targets.pattern.value_or("all-linear"));
    throw UsageError("--lora: no linear layer is a target by '" + join(without, "', '") +
                     "'; the model's linear layers: " + join(layers_.names(), ", "));
  }

  void note(const std::vector<std::string>& without) {
    if (!without.empty())
      program_.notes.push_back("of the adapter's target_modules the model lacks " + join(without, ", "));
  }

  void train_biases() {
    if (lora_.bias == config::LoraBias::none) return;
    for (auto& [name, parameter] : program_.state.parameters) {
      const bool is_of_adapted = name.ends_with(".bias") && adapted_.contains(name.substr(0, name.size() - 5));
      if (lora_.bias == config::LoraBias::all ? name.find("bias") != std::string::npos : is_of_adapted)
        parameter.requires_grad_();
    }
  }

  program::Program& program_;
  const config::Lora& lora_;
  LinearLayers layers_;
  Emitter emit_;
  Factors factors_;
  std::map<std::string, std::pair<Value, Value>> adapted_;  // by the layer's path
};

}  // namespace

void add_lora(program::Program& program, const config::Lora& lora, int64_t seed) {
  LoraWriter(program, lora, seed).write();
}

}  // namespace memtune::frontend
