#include <ATen/ATen.h>

#include <limits>
#include <optional>

#include "core/model/frontend/transformers/mlp.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using model::SharedExpertOrder;

// Sorts tokens by expert and computes two grouped products over all experts: transformers' "grouped_mm".
class ExpertsWriter {
 public:
  ExpertsWriter(DecoderOpEmitter& parts, std::string layer)
      : parts_(parts),
        emit_(parts.emit()),
        config_(parts.config()),
        experts_(*parts.config().experts),
        names_(parts.family().experts),
        layer_(std::move(layer)),
        path_(names_.beside_mlp ? layer_ : layer_ + "." + std::string(names_.block)) {}

  Value write(Value x) {
    if (names_.layout == model::ExpertMlpKind::of_all_tokens) return block_of_all_tokens(x);
    const Value y = block(x);
    if (!shares(SharedExpertOrder::beside)) return y;
    return parts_.plus(y, write_mlp(parts_, x, layer_ + "." + std::string(names_.shared), experts_.shared_width));
  }

  Value write_beside_mlp(Value x, Value y) {
    const auto normed = [&](Value of, const char* name) {
      return parts_.norm(of, layer_ + "." + name, config_.hidden);
    };
    const Value first = normed(y, "post_feedforward_layernorm_1");
    const Value rows = emit_.op("aten::reshape", "", {x, std::vector<int64_t>{-1, config_.hidden}});
    const ChosenExpertIndicesAndWeights routed = write_router(parts_, rows, layer_);
    const Value second = mixed(normed(rows, "pre_feedforward_layernorm_2"), routed.weights, routed.experts);
    const Value shaped = parts_.reshaped(second, parts_.shape({config_.hidden}));
    return parts_.plus(first, normed(shaped, "post_feedforward_layernorm_2"));
  }

 private:
  bool shares(SharedExpertOrder how) const { return experts_.shared_width > 0 && names_.sharing == how; }

  Value block(Value x) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type(names_.block_class));
    Value before;
    if (shares(SharedExpertOrder::before)) before = shared(x);
    // The router of families with groups views the input by itself, which gives another sum of gradients.
    const bool apart = names_.routing == model::RouterKind::sigmoid_in_groups ||
                       names_.routing == model::RouterKind::softmax_in_groups;
    ChosenExpertIndicesAndWeights routed;
    if (apart) routed = write_router(parts_, parts_.rows(x, config_.hidden), path_);
    const Value rows = parts_.rows(x, config_.hidden);
    if (shares(SharedExpertOrder::gated) || shares(SharedExpertOrder::first)) before = shared(rows);
    if (!apart) routed = write_router(parts_, rows, path_);
    Value y = mixed(rows, routed.weights, routed.experts);
    if (shares(SharedExpertOrder::gated)) y = parts_.plus(y, parts_.multiply(shared_part(rows), before));
    if (shares(SharedExpertOrder::first)) y = parts_.plus(y, before);
    y = parts_.reshaped(y, parts_.shape({config_.hidden}));
    if (shares(SharedExpertOrder::before)) return parts_.plus(y, before);
    return shares(SharedExpertOrder::after) ? parts_.plus(y, shared(x)) : y;
  }

  Value block_of_all_tokens(Value x) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type(names_.block_class));
    const Value rows = emit_.op("aten::reshape", "", {x, std::vector<int64_t>{-1, config_.hidden}});
    const Value weights = write_router(parts_, rows, path_).weights;
    const Value repeated = emit_.op("aten::repeat", "", {rows, std::vector<int64_t>{experts_.count, 1}});
    const Value by_expert = emit_.op("aten::transpose", "int", {weights, 0, 1});
    const Value factors = emit_.op("aten::reshape", "", {by_expert, std::vector<int64_t>{-1, 1}});
    const Value routed = of_all_tokens(parts_.multiply(repeated, factors));
    const Value y = shared(rows);
    const Value parted =
        emit_.op("aten::reshape", "", {routed, std::vector<int64_t>{experts_.count, -1, config_.hidden}});
    emit_.op("aten::add_", "Tensor", {y, emit_.op("aten::sum", "dim_IntList", {parted, std::vector<int64_t>{0}})});
    return emit_.op("aten::view", "", {y, parts_.shape({config_.hidden})});
  }

  // [experts * tokens, hidden]
  Value of_all_tokens(Value x) {
    const std::string path = path_ + ".experts";
    const ProgramEmitter::InRegion region(emit_, path, parts_.type("Experts"));
    const auto weight = [&](const std::string& name, int64_t in, int64_t out) {
      return parts_.parameter(path + "." + name, {experts_.count, in, out}, SyntheticWeightInitialization::noise);
    };
    const Value parted = emit_.op("aten::view", "", {x, std::vector<int64_t>{experts_.count, -1, config_.hidden}});
    const Value both = emit_.op("aten::bmm", "", {parted, weight("gate_up_proj", config_.hidden, 2 * experts_.width)});
    const Values two = emit_.unpack_list(emit_.op("aten::chunk", "", {both, 2, -1}), 2);
    const Value inner = parts_.multiply(two[1], parts_.activated(two[0]));
    const Value y = emit_.op("aten::bmm", "", {inner, weight("down_proj", experts_.width, config_.hidden)});
    return emit_.op("aten::view", "", {y, std::vector<int64_t>{-1, config_.hidden}});
  }

  Value shared(Value x) {
    return write_mlp(parts_, x, path_ + "." + std::string(names_.shared), experts_.shared_width);
  }

  Value shared_part(Value rows) {
    return emit_.op("aten::sigmoid", "",
                    {parts_.linear(rows, path_ + ".shared_expert_gate", config_.hidden, 1, /*bias=*/false)});
  }

  Value mixed(Value rows, Value weights, Value chosen) {
    const std::string path = path_ + ".experts";
    const ProgramEmitter::InRegion region(emit_, path, parts_.type("Experts"));
    weights = flat(weights);
    const Values sorted = emit_.op("aten::sort", "", {flat(chosen)}, 2);
    const Value order = sorted[1];
    const Value tokens = emit_.op("aten::floor_divide", "Scalar", {order, experts_.chosen});
    const Value taken = picked(rows, tokens);
    weights = picked(weights, order);
    const Value ends = ends_of_experts(sorted[0]);
    const Value none =
        emit_.op("aten::unsqueeze", "", {emit_.op("aten::ge", "Scalar", {sorted[0], experts_.count}), -1});
    emit_.op("aten::clamp_", "", {sorted[0], IValue(), experts_.count - 1});
    const Product up = product_of(path, "gate_up_proj", config_.hidden, 2 * experts_.width, sorted[0]);
    emit_.op("aten::masked_fill_", "Scalar", {taken, none, 0.0});
    const Value both = applied(up, taken, ends, none);
    const Value inner = clamps() ? clamped_gate(both) : gated(both);
    const Product down = product_of(path, "down_proj", experts_.width, config_.hidden, sorted[0]);
    const Value out = applied(down, inner, ends, none);
    const Value weighted = parts_.multiply(out, emit_.op("aten::unsqueeze", "", {weights, -1}));
    return summed(picked(weighted, inverse(order)));
  }

  // Of each expert: weight [experts, in, out]; bias by token.
  struct Product {
    Value weight;
    std::optional<Value> bias;
  };

  bool clamps() const { return names_.layout == model::ExpertMlpKind::clamped; }

  Product product_of(const std::string& path, const std::string& name, int64_t in, int64_t out, Value experts) {
    if (!clamps()) {
      const Value weight = parts_.expert_weights(path, name, {experts_.count, out, in});
      return {emit_.op("aten::transpose", "int", {weight, -2, -1}), {}};
    }
    const Value weight =
        parts_.parameter(path + "." + name, {experts_.count, in, out}, SyntheticWeightInitialization::noise);
    const Value bias =
        parts_.parameter(path + "." + name + "_bias", {experts_.count, out}, SyntheticWeightInitialization::zeros);
    return {weight, picked(bias, experts)};
  }

  Value applied(const Product& product, Value x, Value ends, Value none) {
    const Value y = emit_.op("aten::_grouped_mm", "", {parts_.cast(x, parts_.dtype()), product.weight, ends});
    if (product.bias) emit_.op("aten::add_", "Tensor", {y, *product.bias});
    return emit_.op("aten::masked_fill", "Scalar", {y, none, 0.0});
  }

  Value gated(Value both) {
    const Values two = emit_.unpack_list(emit_.op("aten::chunk", "", {both, 2, -1}), 2);
    return parts_.multiply(parts_.activated(two[0]), two[1]);
  }

  // https://huggingface.co/openai/gpt-oss-20b: GptOssExperts in transformers.
  Value clamped_gate(Value both) {
    constexpr double kAlpha = 1.702, kLimit = 7.0;
    const auto every_other = [&](int64_t from) {
      return emit_.op("aten::slice", "Tensor", {both, 1, from, std::numeric_limits<int64_t>::max(), 2});
    };
    const Value gates = every_other(0), ups = every_other(1);
    const Value gate = emit_.op("aten::clamp", "", {gates, IValue(), kLimit});
    const Value up = emit_.op("aten::clamp", "", {ups, -kLimit, kLimit});
    const Value open = parts_.multiply(gate, emit_.op("aten::sigmoid", "", {parts_.times(gate, kAlpha)}));
    return parts_.multiply(emit_.op("aten::add", "Scalar", {up, 1}), open);
  }

  Value flat(Value x) { return emit_.op("aten::reshape", "", {x, std::vector<int64_t>{-1}}); }

  Value indices(Value index) { return emit_.list(c10::ListType::create(c10::OptionalType::ofTensor()), {index}); }
  Value picked(Value x, Value index) { return emit_.op("aten::index", "Tensor", {x, indices(index)}); }

  // Where each expert's tokens end. histc takes only floats on a CPU, and is deterministic on CUDA only for integers.
  Value ends_of_experts(Value sorted) {
    const Value counted = parts_.cast(sorted, parts_.device().is_cuda() ? at::kInt : at::kFloat);
    const Value counts = emit_.op("aten::histc", "", {counted, experts_.count, 0, experts_.count - 1});
    return emit_.op("aten::cumsum", "", {counts, 0, at::kInt});
  }

  Value inverse(Value order) {
    const Value result = emit_.op("aten::empty_like", "", {order});
    const Value count = emit_.op("aten::size", "int", {order, 0});
    const Value places = emit_.op("aten::arange", "", {count, IValue(), IValue(), parts_.device(), false});
    emit_.op("aten::index_put_", "", {result, indices(order), places});
    return result;
  }

  Value summed(Value x) {
    const std::vector<int64_t> by_token = {-1, experts_.chosen, config_.hidden};
    const Value sum =
        emit_.op("aten::sum", "dim_IntList", {emit_.op("aten::view", "", {x, by_token}), std::vector<int64_t>{1}});
    return parts_.cast(sum, parts_.dtype());
  }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  const model::MoeConfig& experts_;
  const model::FamilyMoeConventions& names_;
  std::string layer_, path_;
};

}  // namespace

Value write_experts(DecoderOpEmitter& parts, Value x, const std::string& layer) {
  return ExpertsWriter(parts, layer).write(x);
}

Value write_experts_beside_mlp(DecoderOpEmitter& parts, Value x, Value y, const std::string& layer) {
  return ExpertsWriter(parts, layer).write_beside_mlp(x, y);
}

}  // namespace memtune::frontend
