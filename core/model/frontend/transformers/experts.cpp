#include <ATen/ATen.h>

#include "core/model/frontend/transformers/mlp.h"

namespace memtune::frontend {
namespace {

using c10::IValue;

// Sorts tokens by expert and computes two grouped products over all experts: transformers' "grouped_mm".
class ExpertsWriter {
 public:
  ExpertsWriter(DecoderBuilder& parts, std::string path)
      : parts_(parts),
        emit_(parts.emit()),
        config_(parts.config()),
        experts_(*parts.config().experts),
        path_(std::move(path)) {}

  Value write(Value x) {
    const Emitter::InRegion region(emit_, path_, parts_.type("SparseMoeBlock"));
    const Value rows = parts_.rows(x, config_.hidden);
    Value shared;
    if (experts_.shared_width > 0) shared = write_mlp(parts_, rows, path_ + ".shared_expert", experts_.shared_width);
    const auto [weights, chosen] = routed(rows);
    Value y = mixed(rows, weights, chosen);
    if (experts_.shared_width > 0) y = parts_.plus(y, parts_.multiply(shared_part(rows), shared));
    return parts_.reshaped(y, parts_.shape({config_.hidden}));
  }

 private:
  struct Routed {
    Value weights, chosen;
  };

  Value shared_part(Value rows) {
    return emit_.op("aten::sigmoid", "",
                    {parts_.linear(rows, path_ + ".shared_expert_gate", config_.hidden, 1, /*bias=*/false)});
  }

  Routed routed(Value rows) {
    const std::string path = path_ + ".gate";
    const Emitter::InRegion region(emit_, path, parts_.type("TopKRouter"));
    const Value weight = parts_.parameter(path + ".weight", {experts_.count, config_.hidden}, WeightInit::noise);
    const Value logits = emit_.op("aten::linear", "", {rows, weight});
    const bool in_float = parts_.family().experts.always_normed;
    const Value odds = in_float ? emit_.op("aten::softmax", "int", {parts_.cast(logits, at::kFloat), -1})
                                : emit_.op("aten::softmax", "int", {logits, -1, at::kFloat});
    const Values best = emit_.op("aten::topk", "", {odds, experts_.chosen, -1}, 2);
    if (experts_.normed) {
      const Value sum = emit_.op("aten::sum", "dim_IntList", {best[0], std::vector<int64_t>{-1}, true});
      emit_.op("aten::div_", "Tensor", {best[0], sum});
    }
    return {in_float ? best[0] : parts_.like(best[0], logits), best[1]};
  }

  Value mixed(Value rows, Value weights, Value chosen) {
    const std::string path = path_ + ".experts";
    const Emitter::InRegion region(emit_, path, parts_.type("Experts"));
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
    emit_.op("aten::masked_fill_", "Scalar", {taken, none, 0.0});
    const auto product = [&](Value y, const char* name, int64_t in, int64_t out, int64_t parts) {
      const Value weight = parts_.expert_weights(path, name, {experts_.count, parts * out, in});
      const Value turned = emit_.op("aten::transpose", "int", {weight, -2, -1});
      y = emit_.op("aten::_grouped_mm", "", {parts_.cast(y, parts_.dtype()), turned, ends});
      return emit_.op("aten::masked_fill", "Scalar", {y, none, 0.0});
    };
    const Value both = product(taken, "gate_up_proj", config_.hidden, experts_.width, 2);
    const Values two = emit_.unpack_list(emit_.op("aten::chunk", "", {both, 2, -1}), 2);
    const Value inner = parts_.multiply(parts_.activated(two[0]), two[1]);
    const Value out = product(inner, "down_proj", experts_.width, config_.hidden, 1);
    const Value weighted = parts_.multiply(out, emit_.op("aten::unsqueeze", "", {weights, -1}));
    return summed(picked(weighted, inverse(order)));
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

  DecoderBuilder& parts_;
  Emitter& emit_;
  const model::TransformersConfig& config_;
  const model::MoeConfig& experts_;
  std::string path_;
};

}  // namespace

Value write_experts(DecoderBuilder& parts, Value x, const std::string& path) {
  return ExpertsWriter(parts, path).write(x);
}

}  // namespace memtune::frontend
