#include "core/model/safetensors/dtype.h"

#include <algorithm>
#include <array>

namespace memtune::safetensors {
namespace {

struct Row {
  Dtype dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array kTable{Row{Dtype::boolean, "BOOL", 1}, Row{Dtype::u8, "U8", 1},   Row{Dtype::i8, "I8", 1},
                            Row{Dtype::i16, "I16", 2},      Row{Dtype::f16, "F16", 2}, Row{Dtype::bf16, "BF16", 2},
                            Row{Dtype::i32, "I32", 4},      Row{Dtype::f32, "F32", 4}, Row{Dtype::i64, "I64", 8},
                            Row{Dtype::f64, "F64", 8}};

const Row& row_of(Dtype dtype) { return *std::ranges::find(kTable, dtype, &Row::dtype); }

}  // namespace

std::string_view to_string(Dtype dtype) { return row_of(dtype).name; }
int64_t bytes_of(Dtype dtype) { return row_of(dtype).bytes; }

std::optional<Dtype> parse_dtype(std::string_view text) {
  const auto row = std::ranges::find(kTable, text, &Row::name);
  return row == kTable.end() ? std::nullopt : std::optional(row->dtype);
}

}  // namespace memtune::safetensors
