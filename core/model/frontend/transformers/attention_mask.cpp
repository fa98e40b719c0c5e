#include "core/model/frontend/transformers/attention_mask.h"

#include <ATen/ATen.h>

#include <limits>

namespace memtune::frontend {
namespace {

using c10::IValue;

}  // namespace

double lowest_of(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return std::numeric_limits<c10::BFloat16>::lowest();
  if (dtype == at::kHalf) return std::numeric_limits<c10::Half>::lowest();
  return dtype == at::kDouble ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

PerWindowAttentionMaskEmitter::PerWindowAttentionMaskEmitter(DecoderOpEmitter& parts,
                                                             const std::optional<Value>& documents,
                                                             const std::optional<Value>& padding)
    : parts_(parts), emit_(parts.emit()), documents_(documents), padding_(padding) {}

std::optional<Value> PerWindowAttentionMaskEmitter::of(int64_t window) {
  const auto [found, first] = masks_.try_emplace(window);
  if (!first) return found->second;
  const bool eager = parts_.setting().attention == AttentionImplementation::eager;
  if (!eager && window == 0 && !documents_ && !padding_ && !parts_.family().always_masked) return {};
  const ProgramEmitter::InRegion region(emit_, "mask", "mask");
  Value mask = seen(window);
  if (eager) {
    const Value zero = emit_.constant(at::zeros({}, at::TensorOptions(parts_.dtype()).device(parts_.device())));
    mask = emit_.op("aten::where", "ScalarOther", {mask, zero, lowest_of(parts_.dtype())});
    if (parts_.family().scoring == model::EagerAttentionScoreFormula::biased) mask = parts_.cast(mask, at::kBool);
  }
  found->second = mask;
  return mask;
}

// [batch, 1, length, length]
Value PerWindowAttentionMaskEmitter::seen(int64_t window) {
  const Value places = emit_.op("aten::arange", "", {parts_.length(), IValue(), IValue(), parts_.device(), false});
  const Value keys = emit_.op("aten::view", "", {places, std::vector<int64_t>{1, 1, 1, -1}});
  const Value queries = emit_.op("aten::view", "", {places, std::vector<int64_t>{1, 1, -1, 1}});
  Value mask = emit_.op("aten::le", "Tensor", {keys, queries});
  const auto and_also = [&](Value other) { mask = emit_.op("aten::bitwise_and", "Tensor", {mask, other}); };
  if (window > 0) and_also(emit_.op("aten::gt", "Tensor", {keys, emit_.op("aten::sub", "Scalar", {queries, window})}));
  if (documents_) and_also(same_document());
  if (padding_) and_also(no_padding());
  const Value shape =
      emit_.list(c10::ListType::ofInts(), {parts_.batch(), emit_.constant(-1), parts_.length(), parts_.length()});
  return emit_.op("aten::expand", "", {mask, shape});
}

// Numbers the documents: the number increases wherever positions are not consecutive.
Value PerWindowAttentionMaskEmitter::same_document() {
  const Value first = emit_.op("aten::slice", "Tensor", {*documents_, 1, 0, 1, 1});
  const Value before = emit_.op("aten::sub", "Scalar", {first, 1});
  const Value steps = emit_.op("aten::diff", "", {*documents_, 1, -1, before});
  const Value number = emit_.op("aten::cumsum", "", {emit_.op("aten::ne", "Scalar", {steps, 1}), -1});
  const Value by_query = emit_.op("aten::unsqueeze", "", {emit_.op("aten::unsqueeze", "", {number, 1}), -1});
  const Value by_key = emit_.op("aten::unsqueeze", "", {emit_.op("aten::unsqueeze", "", {number, 1}), 2});
  return emit_.op("aten::eq", "Tensor", {by_query, by_key});
}

Value PerWindowAttentionMaskEmitter::no_padding() {
  const Value there = emit_.op("aten::to", "dtype", {*padding_, at::kBool});
  return emit_.op("aten::unsqueeze", "", {emit_.op("aten::unsqueeze", "", {there, 1}), 1});
}

}  // namespace memtune::frontend
