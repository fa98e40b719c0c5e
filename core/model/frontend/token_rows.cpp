#include "core/model/frontend/token_rows.h"

#include <ATen/ATen.h>

#include "core/model/ops/linear_cross_entropy.h"

namespace memtune::frontend {

at::Tensor document_positions(int64_t length, int64_t documents) {
  return at::arange(length).remainder(length / documents).unsqueeze(0);
}

at::Tensor document_ends(const at::Tensor& positions) {
  const at::Tensor flat = positions.to(at::kLong).reshape(-1);
  const at::Tensor begins = at::nonzero(flat.diff() != 1).view(-1) + 1;
  return at::cat({at::zeros({1}, at::kLong), begins, at::full({1}, flat.numel(), at::kLong)}).to(at::kInt);
}

at::Tensor padding_mask(int64_t rows, int64_t length, double part) {
  const at::Tensor missing = (at::arange(rows, at::kDouble) + 0.5) * (2 * part * static_cast<double>(length) / rows);
  const at::Tensor lengths = (length - missing.ceil()).clamp_min(1);
  return (at::arange(length).unsqueeze(0) < lengths.unsqueeze(1)).to(at::kLong);
}

at::Tensor labels_of(const at::Tensor& tokens, const at::Tensor& mask) {
  return tokens.masked_fill(mask == 0, ops::kIgnoredLabel);
}

}  // namespace memtune::frontend
