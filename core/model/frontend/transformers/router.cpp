#include <ATen/ATen.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <cmath>
#include <limits>

#include "core/model/frontend/transformers/mlp.h"
#include "core/model/ops/sparse_mixer.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using model::RouterKind;

class RouterWriter {
 public:
  RouterWriter(DecoderOpEmitter& parts, std::string block)
      : parts_(parts),
        emit_(parts.emit()),
        config_(parts.config()),
        experts_(*parts.config().experts),
        names_(parts.family().experts),
        block_(std::move(block)),
        path_(block_ + "." + std::string(names_.router)) {}

  ChosenExpertIndicesAndWeights write(Value rows) {
    Value bias;  // made first, so that it is no part of the router if it is the block's
    if (names_.bias_in_block) bias = bias_of_choice(block_);
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type(names_.router_class));
    const Value weight = weights();
    switch (names_.routing) {
      case RouterKind::biased_of_best: return biased_of_best(rows, weight);
      case RouterKind::sigmoid_of_best: return {sigmoid_of_best(rows, weight), {}};
      case RouterKind::softmax_of_best: return softmax_of_best(rows, weight);
      case RouterKind::float_softmax: return float_softmax(rows, weight);
      case RouterKind::biased_softmax: return biased_softmax(rows, weight);
      case RouterKind::normed_softmax: return normed_softmax(rows, weight);
      case RouterKind::sigmoid: return sigmoid(rows, weight, bias);
      case RouterKind::softmax_in_groups: return softmax_in_groups(rows, weight);
      case RouterKind::sparse_mixer: return sparse_mixer(rows, weight);
      case RouterKind::sigmoid_in_groups: return sigmoid_in_groups(rows, weight);
      default: return softmax(rows, weight);
    }
  }

 private:
  Value weights() {
    const std::string path = path_ + "." + std::string(names_.router_weight);
    const std::vector<int64_t> shape = {experts_.count, config_.hidden};
    const bool in_float = names_.routing == RouterKind::float_softmax || names_.routing == RouterKind::biased_softmax;
    return in_float ? parts_.parameter_in_float(path, shape, SyntheticWeightInitialization::noise)
                    : parts_.parameter(path, shape, SyntheticWeightInitialization::noise);
  }

  ChosenExpertIndicesAndWeights softmax(Value rows, Value weight) {
    const Value logits = emit_.op("aten::linear", "", {rows, weight});
    const bool in_float = names_.routing == RouterKind::softmax_of_float;
    const Value odds = in_float ? emit_.op("aten::softmax", "int", {parts_.cast(logits, at::kFloat), -1})
                                : emit_.op("aten::softmax", "int", {logits, -1, at::kFloat});
    const Values best = emit_.op("aten::topk", "", {odds, experts_.chosen, -1}, 2);
    if (experts_.normed) divide_by_sum(best[0]);
    return {in_float ? best[0] : parts_.like(best[0], logits), best[1]};
  }

  ChosenExpertIndicesAndWeights biased_of_best(Value rows, Value weight) {
    const Value bias = parts_.parameter(path_ + ".bias", {experts_.count}, SyntheticWeightInitialization::zeros);
    const Value logits = emit_.op("aten::linear", "", {rows, weight, bias});
    const Values best = emit_.op("aten::topk", "", {logits, experts_.chosen, -1}, 2);
    // Without its dtype, CUDA's autocast would compute it in float32.
    const at::ScalarType dtype = parts_.setting().autocast.value_or(parts_.dtype());
    return {emit_.op("aten::softmax", "int", {best[0], 1, dtype}), best[1]};
  }

  // [tokens, experts]
  Value sigmoid_of_best(Value rows, Value weight) {
    const Value logits = emit_.op("aten::linear", "", {rows, weight});
    const Values best = emit_.op("aten::topk", "", {logits, experts_.chosen, 1}, 2);
    const Value none = emit_.op("aten::full_like", "", {logits, -std::numeric_limits<double>::infinity()});
    const Value scores = emit_.op("aten::scatter_", "src", {none, 1, best[1], best[0]});
    return parts_.like(emit_.op("aten::sigmoid", "", {parts_.cast(scores, at::kFloat)}), scores);
  }

  ChosenExpertIndicesAndWeights softmax_of_best(Value rows, Value weight) {
    const Value logits = parts_.cast(emit_.op("aten::linear", "", {rows, weight}), at::kFloat);
    const Values best = emit_.op("aten::topk", "", {logits, experts_.chosen, -1}, 2);
    const Value odds = emit_.op("aten::softmax", "int", {best[0], -1});
    return {parts_.like(odds, rows), best[1]};
  }

  ChosenExpertIndicesAndWeights float_softmax(Value rows, Value weight) {
    const Value logits = emit_.op("aten::linear", "", {parts_.cast(rows, at::kFloat), weight});
    const Value odds = emit_.op("aten::softmax", "int", {logits, 1, at::kFloat});
    const Values best = emit_.op("aten::topk", "", {odds, experts_.chosen, -1}, 2);
    divide_by_sum(best[0]);
    return {parts_.like(best[0], logits), best[1]};
  }

  ChosenExpertIndicesAndWeights biased_softmax(Value rows, Value weight) {
    parts_.leave_autocast();
    const Value logits = emit_.op("aten::linear", "", {parts_.cast(rows, at::kFloat), weight});
    const Value odds = emit_.op("aten::softmax", "int", {logits, 1, at::kFloat});
    const Value bias = parts_.stored_buffer(path_ + ".moe_statics.e_score_correction_bias", {1, experts_.count});
    const Value wanted = parts_.plus(odds, emit_.op("aten::squeeze", "", {bias}));
    const Value chosen = emit_.op("aten::topk", "", {wanted, experts_.chosen, -1}, 2)[1];
    const Value weights = emit_.op("aten::gather", "", {odds, -1, chosen});
    const Value sum = emit_.op("aten::clamp", "", {sum_of(weights), experts_.least_sum, IValue()});
    const Value normed = emit_.op("aten::div", "Tensor", {weights, sum});
    emit_.leave();
    return {parts_.like(normed, rows), chosen};
  }

  ChosenExpertIndicesAndWeights normed_softmax(Value rows, Value weight) {
    const Value scale = parts_.parameter(path_ + ".scale", {config_.hidden}, SyntheticWeightInitialization::ones);
    const Value factors =
        parts_.parameter(path_ + ".per_expert_scale", {experts_.count}, SyntheticWeightInitialization::ones);
    const Value scaled = parts_.multiply(parts_.unweighted_norm(rows, path_ + ".norm"), scale);
    const double root = std::pow(static_cast<double>(config_.hidden), -0.5);
    const Value logits = emit_.op("aten::linear", "", {parts_.times(scaled, root), weight});
    const Value odds = emit_.op("aten::softmax", "int", {logits, -1, at::kFloat});
    const Values best = emit_.op("aten::topk", "", {odds, experts_.chosen, -1}, 2);
    divide_by_sum(best[0]);
    const Value chosen = emit_.list(c10::ListType::create(c10::OptionalType::ofTensor()), {best[1]});
    return {parts_.multiply(best[0], emit_.op("aten::index", "Tensor", {factors, chosen})), best[1]};
  }

  ChosenExpertIndicesAndWeights sigmoid(Value rows, Value weight, Value bias) {
    const Value logits = parts_.cast(emit_.op("aten::linear", "", {rows, weight}), at::kFloat);
    const Value scores = emit_.op("aten::sigmoid", "", {logits});
    const Value chosen = best(parts_.plus(scores, bias), experts_.chosen);
    const Value weights = gathered(scores, chosen);
    divide_by_sum(weights);
    return {weights, chosen};
  }

  ChosenExpertIndicesAndWeights sigmoid_in_groups(Value rows, Value weight) {
    const Value in_float = parts_.cast(rows, at::kFloat);
    const Value logits = emit_.op("aten::linear", "", {in_float, parts_.cast(weight, at::kFloat)});
    const Value scores = emit_.op("aten::sigmoid", "", {logits});
    const Value wanted = of_best_groups(parts_.plus(scores, bias_of_choice(path_)));
    const Value chosen = best(wanted, experts_.chosen);
    const Value weights = gathered(scores, chosen);
    if (experts_.normed) {
      const Value sum = emit_.op("aten::add", "Scalar", {sum_of(weights), 1e-20});
      emit_.op("aten::div_", "Tensor", {weights, sum});
    }
    return {parts_.times(weights, experts_.scale), chosen};
  }

  ChosenExpertIndicesAndWeights softmax_in_groups(Value rows, Value weight) {
    const Value in_float = parts_.cast(rows, at::kFloat);
    const Value logits = emit_.op("aten::linear", "", {in_float, parts_.cast(weight, at::kFloat)});
    Value odds = emit_.op("aten::softmax", "int", {logits, -1, at::kFloat});
    if (experts_.groups > 1) {
      const Value most = emit_.op("aten::max", "dim", {by_group(odds), -1, false}, 2)[0];
      odds = in_best_groups(odds, most, 0.0);
    }
    const Values best = emit_.op("aten::topk", "", {odds, experts_.chosen, -1, true, false}, 2);
    return {parts_.times(best[0], experts_.scale), best[1]};
  }

  ChosenExpertIndicesAndWeights sparse_mixer(Value rows, Value weight) {
    const Value scores = emit_.op("aten::linear", "", {rows, weight});
    const ChosenExpertIndicesAndWeights first = drawn(scores, scores, /*twice=*/false);
    const double none = -std::numeric_limits<double>::infinity();
    const Value others = emit_.op("aten::scatter", "value", {scores, -1, first.experts, none});
    const ChosenExpertIndicesAndWeights second = drawn(scores, others, /*twice=*/true);
    const auto both = [&](Value x, Value y) {
      return emit_.op("aten::cat", "", {emit_.list(c10::ListType::ofTensors(), {x, y}), -1});
    };
    const Value weights = both(first.weights, second.weights);
    return {weights, both(first.experts, second.experts)};
  }

  // One expert, from those that are near the best. `twice`: the last random numbers are drawn again, as in Python.
  ChosenExpertIndicesAndWeights drawn(Value scores, Value open, bool twice) {
    static const c10::FunctionSchema schema = torch::jit::parseSchema(
        "memtune::sparse_mixer(Tensor scores, Tensor odds, Tensor chosen, Tensor all_odds, Tensor factors) -> Tensor");
    const auto run = [](program::Stack& stack) {
      const at::Tensor weights = ops::sparse_mixer(stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor(),
                                                   stack[3].toTensor(), stack[4].toTensor());
      stack.clear();
      stack.emplace_back(weights);
    };
    const Value hidden = emit_.op("aten::masked_fill", "Scalar",
                                  {open, far_from_best(scores, open), -std::numeric_limits<double>::infinity()});
    const ValueOrConstantOpArgument same = IValue();
    const Value empty =
        emit_.op("aten::empty_like", "", {hidden, same, same, same, same, at::MemoryFormat::Contiguous});
    const Value noise = emit_.op("aten::log", "", {emit_.op("aten::exponential_", "", {empty})});
    const Value noisy = emit_.op("aten::sub", "Tensor", {hidden, noise});
    const Value index = emit_.op("aten::max", "dim", {noisy, -1}, 2)[1];
    const Value chosen = emit_.op("aten::unsqueeze", "", {index, -1});
    const Value all_odds = emit_.op("aten::softmax", "int", {hidden, -1});
    const Value odds = emit_.op("aten::gather", "", {all_odds, -1, chosen});
    const Values best = emit_.op("aten::max", "dim", {all_odds, -1, true}, 2);
    const Value is_best = emit_.op("aten::eq", "Tensor", {chosen, best[1]});
    Value chance = emit_.op("aten::rand_like", "", {best[0]});
    if (twice) chance = emit_.op("aten::uniform_", "", {chance});
    const Value either = emit_.op("aten::logical_or", "", {is_best, emit_.op("aten::gt", "Scalar", {chance, 0.75})});
    const Value third =
        emit_.constant(at::scalar_tensor(0.3333, at::TensorOptions(at::kFloat).device(parts_.device())));
    const Value factors = parts_.like(emit_.op("aten::add", "Tensor", {third, either, 0.6667}), all_odds);
    return {emit_.call({schema.name(), &schema, run}, {scores, odds, chosen, all_odds, factors}, 1)[0], chosen};
  }

  Value far_from_best(Value scores, Value open) {
    emit_.enter_grad_mode(emit_.constant(false));
    const Value best = emit_.op("aten::max", "dim", {open, -1, true}, 2)[0];
    const Value factor = emit_.op("aten::clamp", "Tensor", {emit_.op("aten::abs", "", {scores}), best});
    const Value distance = emit_.op("aten::div", "Tensor", {emit_.op("aten::sub", "Tensor", {best, scores}), factor});
    const Value far = emit_.op("aten::gt", "Scalar", {distance, experts_.far});
    emit_.leave();
    return far;
  }

  // A group's score is the sum of its two best.
  Value of_best_groups(Value scores) {
    const Value two = emit_.op("aten::topk", "", {by_group(scores), 2, -1}, 2)[0];
    const Value sums = emit_.op("aten::sum", "dim_IntList", {two, std::vector<int64_t>{-1}});
    return in_best_groups(scores, sums, -std::numeric_limits<double>::infinity());
  }

  Value by_group(Value scores) {
    return emit_.op("aten::view", "", {scores, std::vector<int64_t>{-1, experts_.groups, group_size()}});
  }

  // Scores of experts in other groups become `other`.
  Value in_best_groups(Value scores, Value of_groups, double other) {
    const Value chosen = best(of_groups, experts_.chosen_groups);
    const Value mask = emit_.op("aten::zeros_like", "", {of_groups});
    emit_.op("aten::scatter_", "value", {mask, 1, chosen, 1});
    const Value each = emit_.op("aten::unsqueeze", "", {mask, -1});
    const Value wide = emit_.op("aten::expand", "", {each, std::vector<int64_t>{-1, experts_.groups, group_size()}});
    const Value flat = emit_.op("aten::reshape", "", {wide, std::vector<int64_t>{-1, experts_.count}});
    const Value others = emit_.op("aten::bitwise_not", "", {parts_.cast(flat, at::kBool)});
    return emit_.op("aten::masked_fill", "Scalar", {scores, others, other});
  }

  int64_t group_size() const { return experts_.count / experts_.groups; }

  Value bias_of_choice(const std::string& module) {
    return parts_.stored_buffer(module + ".e_score_correction_bias", {experts_.count});
  }

  // Indices, in any order.
  Value best(Value scores, int64_t count) { return emit_.op("aten::topk", "", {scores, count, -1, true, false}, 2)[1]; }
  Value gathered(Value scores, Value chosen) { return emit_.op("aten::gather", "", {scores, 1, chosen}); }
  Value sum_of(Value weights) {
    return emit_.op("aten::sum", "dim_IntList", {weights, std::vector<int64_t>{-1}, true});
  }
  void divide_by_sum(Value weights) { emit_.op("aten::div_", "Tensor", {weights, sum_of(weights)}); }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  const model::MoeConfig& experts_;
  const model::FamilyMoeConventions& names_;
  std::string block_, path_;
};

}  // namespace

ChosenExpertIndicesAndWeights write_router(DecoderOpEmitter& parts, Value rows, const std::string& block) {
  return RouterWriter(parts, block).write(rows);
}

}  // namespace memtune::frontend
