#include "core/model/frontend/transformers/delta_rule.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "core/model/frontend/transformers/chunks.h"

namespace memtune::frontend {
namespace {

using c10::IValue;

constexpr int64_t kChunk = 64;  // tokens

class DeltaRuleWriter {
 public:
  DeltaRuleWriter(DecoderOpEmitter& parts, const DeltaRuleHeadCountAndWidths& sizes)
      : parts_(parts), emit_(parts.emit()), sizes_(sizes) {}

  Value write(DeltaRuleInputs in) {
    for (Value* x : {&in.query, &in.key, &in.value, &in.beta, &in.decay}) *x = heads_first(*x);
    in.query = of_unit_length(in.query);
    in.key = of_unit_length(in.key);
    in.query = parts_.times(in.query, std::pow(static_cast<double>(sizes_.key_width), -0.5));
    const Value missing = write_missing_tokens(parts_, kChunk);
    for (Value* x : {&in.query, &in.key, &in.value}) *x = write_padding(parts_, *x, {zero(), zero(), zero(), missing});
    for (Value* x : {&in.beta, &in.decay}) *x = write_padding(parts_, *x, {zero(), missing});
    const Value value_beta = parts_.multiply(in.value, unsqueezed(in.beta, -1));
    const Value key_beta = parts_.multiply(in.key, unsqueezed(in.beta, -1));
    const Value query = by_chunk(in.query, {sizes_.key_width}), key = by_chunk(in.key, {sizes_.key_width});
    const Value chunked_key_beta = by_chunk(key_beta, {sizes_.key_width});
    const Value chunked_value_beta = by_chunk(value_beta, {sizes_.value_width});
    return scanned(within_chunks(query, key, chunked_key_beta, chunked_value_beta, by_chunk(in.decay, {})));
  }

 private:
  // Of each chunk, in dimension 2: what does not depend on the chunks before it.
  struct Chunks {
    Value query, key;  // decayed since the begin and to the end of the chunk
    Value attention, values, keys;
    Value decay;  // of the state, over the whole chunk
  };

  Chunks within_chunks(Value query, Value key, Value key_beta, Value value_beta, Value decay) {
    const Value later = later_tokens();
    const Value sum = emit_.op("aten::cumsum", "", {decay, 3});
    Value between = emit_.op("aten::sub", "Tensor", {unsqueezed(sum, 4), unsqueezed(sum, 3)});
    between = emit_.op("aten::masked_fill", "Scalar", {between, later, -std::numeric_limits<double>::infinity()});
    between = exp(between);
    const Value system = parts_.multiply(product(key_beta, transposed(key)), between);
    const Value attention = parts_.multiply(product(query, transposed(key)), between);
    const Value decayed_key_beta = parts_.multiply(key_beta, unsqueezed(exp(sum), -1));
    const Value values = solved(system, value_beta), keys = solved(system, decayed_key_beta);
    state_ = zero_state();
    output_ = emit_.op("aten::zeros_like", "", {values});
    const Value decayed_query = parts_.multiply(query, unsqueezed(exp(sum), -1));
    const Value last = emit_.op("aten::slice", "Tensor", {sum, 3, -1, std::numeric_limits<int64_t>::max(), 1});
    const Value to_end = exp(emit_.op("aten::sub", "Tensor", {last, sum}));
    const Value decayed_key = parts_.multiply(key, unsqueezed(to_end, -1));
    const Value whole = exp(emit_.op("aten::select", "int", {sum, 3, -1}));
    return {decayed_query, decayed_key, attention, values, keys, unsqueezed(unsqueezed(whole, 3), 4)};
  }

  // One chunk after the other.
  Value scanned(const Chunks& chunks) {
    const Value count = emit_.op("aten::size", "int", {chunks.values, 2}), go_on = emit_.constant(true);
    emit_.loop(count, go_on, {state_}, [&](const Values& carried) -> Values {
      const auto chunk = [&](Value of) { return emit_.op("aten::select", "int", {of, 2, carried[0]}); };
      const Value state = carried[1], values = chunk(chunks.values);
      const Value known = product(chunk(chunks.keys), state);
      const Value corrected = emit_.op("aten::sub", "Tensor", {values, known});
      const Value before = product(chunk(chunks.query), state);
      const Value inside = product(chunk(chunks.attention), corrected);
      const Value sum = parts_.plus(before, inside);
      emit_.op("aten::copy_", "", {chunk(output_), sum});
      const Value decayed = parts_.multiply(state, chunk(chunks.decay));
      return {go_on, parts_.plus(decayed, product(transposed(chunk(chunks.key)), corrected))};
    });
    const Value joined = parts_.reshaped(output_, shape({-1, sizes_.value_width}));
    const Value all = emit_.op("aten::slice", "Tensor", {joined, 2, 0, parts_.length(), 1});
    return cast_contiguous(emit_.op("aten::transpose", "int", {all, 1, 2}),
                           parts_.setting().autocast.value_or(parts_.dtype()));
  }

  Value heads_first(Value x) { return cast_contiguous(emit_.op("aten::transpose", "int", {x, 1, 2}), at::kFloat); }

  Value cast_contiguous(Value x, at::ScalarType type) {
    return emit_.op("aten::to", "dtype", {x, type, false, false, at::MemoryFormat::Contiguous});
  }

  Value of_unit_length(Value x) {
    const Value sum = emit_.op("aten::sum", "dim_IntList", {parts_.multiply(x, x), std::vector<int64_t>{-1}, true});
    return parts_.multiply(x, emit_.op("aten::rsqrt", "", {emit_.op("aten::add", "Scalar", {sum, 1e-6})}));
  }

  Value later_tokens() {
    const std::vector<int64_t> square = {kChunk, kChunk};
    const Value ones = emit_.op("aten::ones", "", {square, at::kBool, IValue(), parts_.device(), false});
    return emit_.op("aten::triu", "", {ones, 1});
  }

  Value zero_state() {
    return emit_.op("aten::zeros", "",
                    {shape({sizes_.key_width, sizes_.value_width}), at::kFloat, IValue(), parts_.device(), false});
  }

  // [batch, heads, rest...]
  Value shape(const std::vector<int64_t>& rest) {
    Values all = {parts_.batch(), emit_.constant(sizes_.heads)};
    for (const int64_t size : rest) all.push_back(emit_.constant(size));
    return emit_.list(c10::ListType::ofInts(), all);
  }

  Value by_chunk(Value x, std::vector<int64_t> rest) {
    rest.insert(rest.begin(), {-1, kChunk});
    return parts_.reshaped(x, shape(rest));
  }

  Value solved(Value system, Value y) {
    return emit_.op("aten::linalg_solve_triangular", "",
                    {system, y, /*upper=*/false, /*left=*/true,
                     /*unitriangular=*/true});
  }
  Value product(Value x, Value y) { return emit_.op("aten::matmul", "", {x, y}); }
  Value transposed(Value x) { return emit_.op("aten::transpose", "int", {x, -1, -2}); }
  Value unsqueezed(Value x, int64_t dim) { return emit_.op("aten::unsqueeze", "", {x, dim}); }
  Value exp(Value x) { return emit_.op("aten::exp", "", {x}); }
  Value zero() { return emit_.constant(int64_t{0}); }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  DeltaRuleHeadCountAndWidths sizes_;
  Value state_, output_;
};

}  // namespace

Value write_delta_rule(DecoderOpEmitter& parts, const DeltaRuleInputs& inputs,
                       const DeltaRuleHeadCountAndWidths& sizes) {
  return DeltaRuleWriter(parts, sizes).write(inputs);
}

}  // namespace memtune::frontend
