#include "core/model/frontend/transformers/rotary.h"

#include <ATen/ATen.h>

#include <limits>

namespace memtune::frontend {
namespace {

using c10::IValue;
using model::RotaryEmbeddingLayoutAndPrecision;

constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();

Value cat(ProgramEmitter& emit, Value first, Value second) {
  return emit.op("aten::cat", "", {emit.list(c10::ListType::ofTensors(), {first, second}), -1});
}

Value slice(ProgramEmitter& emit, Value x, int64_t begin, int64_t end, int64_t step = 1) {
  return emit.op("aten::slice", "Tensor", {x, 3, begin, end, step});
}

Value doubled(ProgramEmitter& emit, Value x) { return emit.op("aten::repeat_interleave", "self_int", {x, 2, -1}); }

bool of_neighbours(RotaryEmbeddingLayoutAndPrecision turning) {
  return turning != RotaryEmbeddingLayoutAndPrecision::halves &&
         turning != RotaryEmbeddingLayoutAndPrecision::halves_in_float &&
         turning != RotaryEmbeddingLayoutAndPrecision::halves_of_half_tables;
}

bool has_doubled_tables(RotaryEmbeddingLayoutAndPrecision turning) {
  return turning == RotaryEmbeddingLayoutAndPrecision::neighbours_in_float ||
         turning == RotaryEmbeddingLayoutAndPrecision::neighbours_by_doubled_tables;
}

class Turner {
 public:
  Turner(DecoderOpEmitter& parts, std::pair<Value, Value> turn) : parts_(parts), emit_(parts.emit()), turn_(turn) {
    if (!of_neighbours(parts_.family().turning) || has_doubled_tables(parts_.family().turning)) return;
    const int64_t width = parts_.config().rotary[0].width;
    turn_.first = doubled(emit_, slice(emit_, turn.first, 0, width / 2));
    turn_.second = doubled(emit_, slice(emit_, turn.second, 0, width / 2));
  }

  Value turned(Value x) {
    if (parts_.family().turning == RotaryEmbeddingLayoutAndPrecision::halves_of_half_tables)
      return turned_by_half_tables(x);
    const bool casts = parts_.family().turning == RotaryEmbeddingLayoutAndPrecision::neighbours_by_float_tables;
    const auto factor = [&](Value y) { return casts ? parts_.cast(y, at::kFloat) : y; };
    const Value straight = parts_.multiply(factor(x), turn_.first);
    const Value crossed = parts_.multiply(factor(swapped(x)), turn_.second);
    return parts_.plus(straight, crossed);
  }

 private:
  Value turned_by_half_tables(Value x) {
    const Values half = emit_.unpack_list(emit_.op("aten::chunk", "", {x, 2, -1}), 2);
    return rotate_pairs(parts_, half[0], half[1], turn_.first, turn_.second);
  }

  Value swapped(Value x) {
    if (!of_neighbours(parts_.family().turning)) {
      const int64_t width = parts_.config().rotary[0].width;
      const Value first = slice(emit_, x, 0, width / 2), second = slice(emit_, x, width / 2, kToEnd);
      return cat(emit_, emit_.op("aten::neg", "", {second}), first);
    }
    const Value first = slice(emit_, x, 0, kToEnd, 2), second = slice(emit_, x, 1, kToEnd, 2);
    const Value pair = emit_.list(c10::ListType::ofTensors(), {emit_.op("aten::neg", "", {second}), first});
    return emit_.op("aten::flatten", "using_ints", {emit_.op("aten::stack", "", {pair, -1}), -2});
  }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  std::pair<Value, Value> turn_;
};

Value angles(DecoderOpEmitter& parts, const model::RotaryConfig& rotary, Value positions) {
  ProgramEmitter& emit = parts.emit();
  const std::string name = rotary.name.empty() ? "inv_freq" : rotary.name + "_inv_freq";
  const std::string path = std::string(parts.family().modules.base) + ".rotary_emb." + name;
  const Value frequency = emit.buffer(path, rotary_frequencies(rotary).to(parts.device()));
  const Value row = emit.op("aten::unsqueeze", "", {emit.op("aten::unsqueeze", "", {frequency, 0}), 2});
  const Value wide = emit.op("aten::expand", "", {row, std::vector<int64_t>{1, -1, 1}});
  const Value at = parts.cast(emit.op("aten::unsqueeze", "", {positions, 1}), at::kFloat);
  const Value angle = emit.op("aten::transpose", "int", {emit.op("aten::matmul", "", {wide, at}), 1, 2});
  const RotaryEmbeddingLayoutAndPrecision turning = parts.family().turning;
  if (turning == RotaryEmbeddingLayoutAndPrecision::halves_of_half_tables ||
      turning == RotaryEmbeddingLayoutAndPrecision::complex)
    return angle;
  return has_doubled_tables(turning) ? doubled(emit, angle) : cat(emit, angle, angle);
}

}  // namespace

Value write_positions(DecoderOpEmitter& parts) {
  ProgramEmitter& emit = parts.emit();
  const Value counted = emit.op("aten::arange", "", {parts.length(), IValue(), IValue(), parts.device(), false});
  return emit.op("aten::unsqueeze", "", {emit.op("aten::add", "Scalar", {counted, 0}), 0});
}

std::pair<Value, Value> write_rotary(DecoderOpEmitter& parts, const model::RotaryConfig& rotary, Value positions) {
  ProgramEmitter& emit = parts.emit();
  const std::string path = std::string(parts.family().modules.base) + ".rotary_emb";
  const ProgramEmitter::InRegion region(emit, path, parts.type("RotaryEmbedding"));
  emit.enter_grad_mode(emit.constant(false));
  parts.leave_autocast();
  const Value angle = angles(parts, rotary, positions);
  if (parts.family().turning == RotaryEmbeddingLayoutAndPrecision::complex) {
    const Value unit = emit.op("aten::polar", "", {emit.op("aten::ones_like", "", {angle}), angle});
    const Value table = parts.times(unit, rotary.scale);
    emit.leave();
    emit.leave();
    return {table, table};
  }
  Value cosine = parts.times(emit.op("aten::cos", "", {angle}), rotary.scale);
  Value sine = parts.times(emit.op("aten::sin", "", {angle}), rotary.scale);
  emit.leave();
  const RotaryEmbeddingLayoutAndPrecision turning = parts.family().turning;
  if (turning != RotaryEmbeddingLayoutAndPrecision::halves_in_float &&
      turning != RotaryEmbeddingLayoutAndPrecision::neighbours_by_float_tables) {
    cosine = parts.cast(cosine, parts.dtype());
    sine = parts.cast(sine, parts.dtype());
  }
  emit.leave();
  return {cosine, sine};
}

Value rotate_as_complex(DecoderOpEmitter& parts, Value x, Value table, Value pairs) {
  ProgramEmitter& emit = parts.emit();
  const Value numbers = emit.op("aten::view_as_complex", "", {parts.reshaped(parts.cast(x, at::kFloat), pairs)});
  const Value rotated = emit.op("aten::view_as_real", "", {parts.multiply(numbers, table)});
  return parts.like(emit.op("aten::flatten", "using_ints", {rotated, 3}), x);
}

Value rotate_pairs(DecoderOpEmitter& parts, Value first, Value second, Value cosine, Value sine) {
  ProgramEmitter& emit = parts.emit();
  const Value first_cosine = parts.multiply(first, cosine), second_sine = parts.multiply(second, sine);
  const Value front = emit.op("aten::sub", "Tensor", {first_cosine, second_sine});
  const Value second_cosine = parts.multiply(second, cosine), first_sine = parts.multiply(first, sine);
  return cat(emit, front, parts.plus(second_cosine, first_sine));
}

Value apply_rotary(DecoderOpEmitter& parts, Value x, std::pair<Value, Value> turn) {
  return Turner(parts, turn).turned(x);
}

std::pair<Value, Value> apply_rotary(DecoderOpEmitter& parts, Value queries, Value keys, std::pair<Value, Value> turn) {
  ProgramEmitter& emit = parts.emit();
  const RotaryEmbeddingLayoutAndPrecision turning = parts.family().turning;
  if (turning == RotaryEmbeddingLayoutAndPrecision::neighbours_in_float) {
    queries = parts.cast(queries, at::kFloat);
    keys = parts.cast(keys, at::kFloat);
  }
  Turner turner(parts, turn);
  if (!parts.family().partial_rotary) {
    const Value q = turner.turned(queries), k = turner.turned(keys);
    if (turning == RotaryEmbeddingLayoutAndPrecision::halves ||
        turning == RotaryEmbeddingLayoutAndPrecision::halves_of_half_tables)
      return {q, k};
    const Value cast_q = parts.cast(q, parts.dtype());
    return {cast_q, parts.cast(k, parts.dtype())};
  }
  const int64_t width = parts.config().rotary[0].width;
  const Value q = slice(emit, queries, 0, width), q_rest = slice(emit, queries, width, kToEnd);
  const Value k = slice(emit, keys, 0, width), k_rest = slice(emit, keys, width, kToEnd);
  const Value turned_q = turner.turned(q), turned_k = turner.turned(k);
  const Value whole_q = cat(emit, turned_q, q_rest);
  return {whole_q, cat(emit, turned_k, k_rest)};
}

}  // namespace memtune::frontend
