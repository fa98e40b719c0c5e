#include "core/model/quantized/int8.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

namespace memtune::quantized {
namespace {

constexpr double kLargest = 127;
constexpr int64_t kPiece = int64_t{1} << 22;  // elements per operator call
constexpr double kUnit = 6.200012e-05;        // 1 / 127^2, as in bitsandbytes' kernel

int64_t rows_of_piece(int64_t columns) { return std::max<int64_t>(kPiece / std::max<int64_t>(columns, 1), 1); }

// Calls `take` with the first row and the number of rows of each piece.
void by_pieces(const at::Tensor& matrix, const std::function<void(int64_t, int64_t)>& take) {
  const int64_t rows = matrix.size(0), most = rows_of_piece(matrix.size(1));
  for (int64_t begin = 0; begin < rows; begin += most) take(begin, std::min(most, rows - begin));
}

// Quantizes a float16 matrix. Elements with a magnitude of at least `threshold` become 0 and are ignored; 0: no limit.
Int8Weight round_rows(const at::Tensor& halves, double threshold) {
  Int8Weight rounded{at::empty(halves.sizes(), halves.options().dtype(at::kChar)),
                     at::empty({halves.size(0)}, halves.options().dtype(at::kFloat))};
  if (halves.is_meta()) return rounded;
  by_pieces(halves, [&](int64_t begin, int64_t count) {
    at::Tensor numbers = halves.narrow(0, begin, count).to(at::kFloat);
    if (threshold > 0) numbers.masked_fill_(numbers.abs() >= threshold, 0);
    const at::Tensor largest = numbers.abs().amax(1);
    rounded.largest.narrow(0, begin, count).copy_(largest);
    numbers.mul_(largest.reciprocal().mul_(kLargest).unsqueeze(1)).round_().nan_to_num_(0);
    rounded.numbers.narrow(0, begin, count).copy_(numbers);
  });
  return rounded;
}

int64_t filled_up(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

// Pads with zeros to sizes that at::_int_mm accepts on CUDA.
at::Tensor padded(const at::Tensor& matrix, int64_t rows, int64_t columns) {
  if (matrix.size(0) == rows && matrix.size(1) == columns) return matrix;
  return at::constant_pad_nd(matrix, {0, columns - matrix.size(1), 0, rows - matrix.size(0)});
}

// Returns int32 [a's rows, b's rows].
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  const int64_t rows = std::max<int64_t>(a.size(0), 17), inner = filled_up(a.size(1), 8);
  const at::Tensor all = at::_int_mm(padded(a, rows, inner), padded(b, filled_up(b.size(0), 8), inner).t());
  return all.narrow(0, 0, a.size(0)).narrow(1, 0, b.size(0));
}

// Returns float16 for every dtype of the inputs, like bitsandbytes' kernel.
at::Tensor scaled(const at::Tensor& sums, const at::Tensor& of_rows, const at::Tensor& of_columns) {
  at::Tensor halves = at::empty(sums.sizes(), sums.options().dtype(at::kHalf));
  const at::Tensor units = of_columns.mul(kUnit).unsqueeze(0);
  by_pieces(sums, [&](int64_t begin, int64_t count) {
    const at::Tensor numbers = sums.narrow(0, begin, count).to(at::kFloat);
    halves.narrow(0, begin, count).copy_(numbers * (of_rows.narrow(0, begin, count).unsqueeze(1) * units));
  });
  return halves;
}

at::Tensor dequantized_columns(const Int8Weight& weight, const at::Tensor& columns, at::ScalarType type) {
  constexpr double kPart = 7.874015718698502e-3;
  return (weight.numbers.index_select(1, columns) * weight.largest.unsqueeze(1) * kPart).to(type);
}

}  // namespace

Int8Weight pack_int8(const at::Tensor& matrix) { return round_rows(matrix.detach().contiguous().to(at::kHalf), 0); }

at::Tensor unpack_int8(const Int8Weight& packed, at::ScalarType type) {
  return packed.numbers.to(type).mul_(packed.largest.unsqueeze(1).mul(1.0 / kLargest));
}

Int8MatmulOutputAndOutlierColumns multiply_int8(const at::Tensor& inputs, const Int8Weight& weight,
                                                const std::optional<at::Tensor>& bias) {
  const at::Tensor halves = inputs.to(at::kHalf);
  const at::Tensor columns = (halves.abs() >= kOutlier).any(0).nonzero().view(-1);
  const Int8Weight rounded = round_rows(halves, kOutlier);
  at::Tensor(rounded.numbers).index_fill_(1, columns, 0);
  at::Tensor output = scaled(product(rounded.numbers, weight.numbers), rounded.largest, weight.largest);
  if (bias) output.add_(*bias);
  output = output.to(inputs.scalar_type());
  if (columns.numel() == 0) return {output, at::empty({0}, inputs.options())};
  const at::Tensor outliers = inputs.index_select(1, columns);
  return {at::addmm(output, outliers, dequantized_columns(weight, columns, inputs.scalar_type()).t()), outliers};
}

}  // namespace memtune::quantized
