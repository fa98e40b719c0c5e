#include "core/model/frontend/sentence_embedding.h"

#include <ATen/ATen.h>

namespace memtune::frontend {
namespace {

using c10::IValue;

Value vector_of(ProgramEmitter& emit, Value tokens, Value places, int64_t width) {
  const Value each = emit.op("aten::unsqueeze", "", {emit.op("aten::unsqueeze", "", {places, -1}), 1});
  const Value wide = emit.op("aten::expand", "", {each, std::vector<int64_t>{-1, 1, width}});
  return emit.op("aten::squeeze", "dim", {emit.op("aten::gather", "", {tokens, 1, wide}), 1});
}

Value first_vector(ProgramEmitter& emit, Value tokens, Value mask, int64_t width) {
  const Value numbers = emit.op("aten::to", "dtype", {mask, at::kInt});
  return vector_of(emit, tokens, emit.op("aten::argmax", "", {numbers, 1}), width);
}

Value last_vector(ProgramEmitter& emit, Value tokens, Value mask, Value length, int64_t width) {
  const Values most =
      emit.op("aten::max", "dim", {emit.op("aten::flip", "", {mask, std::vector<int64_t>{1}}), 1, false}, 2);
  const Value none = emit.op("aten::eq", "Scalar", {most[0], 0});
  const Value last = emit.op("aten::rsub", "Scalar", {emit.op("aten::ones_like", "", {most[1]}), length});
  const Value behind = emit.op("aten::where", "self", {none, last, most[1]});
  const Value places = emit.op("aten::sub", "Scalar", {emit.op("aten::rsub", "Scalar", {behind, length}), 1});
  const Value wide = emit.op("aten::expand_as", "", {emit.op("aten::unsqueeze", "", {mask, -1}), tokens});
  const Value text = emit.op("aten::mul", "Tensor", {tokens, emit.op("aten::type_as", "", {wide, tokens})});
  return vector_of(emit, text, places, width);
}

Value mean_vector(ProgramEmitter& emit, Value tokens, Value mask) {
  const Value text = emit.op("aten::type_as", "", {emit.op("aten::unsqueeze", "", {mask, -1}), tokens});
  const auto sum = [&](Value x) {
    return emit.op("aten::sum", "dim_IntList", {x, std::vector<int64_t>{1}, false, at::kFloat});
  };
  const Value vectors = sum(emit.op("aten::mul", "Tensor", {tokens, text}));
  const Value count = emit.op("aten::clamp", "", {sum(text), 1e-9});
  return emit.op("aten::type_as", "", {emit.op("aten::div", "Tensor", {vectors, count}), tokens});
}

}  // namespace

Value pooled(ProgramEmitter& emit, Value tokens, Value mask, Value length, int64_t width,
             model::SentencePoolingMethod pooling) {
  const ProgramEmitter::InRegion region(emit, "pooling", "Pooling");
  if (pooling == model::SentencePoolingMethod::mean) return mean_vector(emit, tokens, mask);
  if (pooling == model::SentencePoolingMethod::first) return first_vector(emit, tokens, mask, width);
  return last_vector(emit, tokens, mask, length, width);
}

Value unit_length(ProgramEmitter& emit, Value rows) {
  const Value length = emit.op("aten::linalg_vector_norm", "", {rows, 2, std::vector<int64_t>{-1}, true});
  const Value least = emit.op("aten::clamp_min", "", {length, 1e-12});
  return emit.op("aten::div", "Tensor", {rows, emit.op("aten::expand_as", "", {least, rows})});
}

Value ranking_loss(ProgramEmitter& emit, Value anchors, Value positives, c10::Device device) {
  constexpr double kScale = 20;
  const ProgramEmitter::InRegion region(emit, "loss", "loss");
  const c10::TypePtr indices = c10::ListType::create(c10::OptionalType::ofTensor());
  const auto joined = [&](Value x, int64_t dimension) {
    return emit.op("aten::cat", "", {emit.list(c10::ListType::ofTensors(), {x}), dimension});
  };
  const auto in_float = [&](Value x) { return emit.op("aten::to", "dtype", {x, at::kFloat}); };
  const Value count = emit.op("aten::size", "int", {anchors, 0});
  const Value rows = emit.op("aten::arange", "", {count, IValue(), IValue(), device, false});
  const Value queries = in_float(emit.op("aten::index", "Tensor", {anchors, emit.list(indices, {rows})}));
  const Value documents = unit_length(emit, in_float(joined(positives, 0)));
  const Value turned = emit.op("aten::transpose", "int", {documents, 0, 1});
  const Value similarity = emit.op("aten::mm", "", {unit_length(emit, queries), turned});
  const Value scores = emit.op("aten::mul", "Scalar", {similarity, kScale});
  const Value own = emit.op("aten::index", "Tensor", {scores, emit.list(indices, {rows, rows})});
  const Value sums = emit.op("aten::logsumexp", "", {joined(scores, 1), std::vector<int64_t>{1}, false});
  return emit.op("aten::neg", "", {emit.op("aten::mean", "", {emit.op("aten::sub", "Tensor", {own, sums})})});
}

}  // namespace memtune::frontend
