// Tests the document ends for kernels that take lengths, and the labels for losses over padded rows.
#include "core/model/frontend/token_rows.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
namespace memtune::frontend::token_rows_test {
namespace {

bool is(const at::Tensor& tensor, const std::vector<int64_t>& numbers) {
  return at::equal(tensor.reshape(-1).to(at::kLong), at::tensor(numbers, at::kLong));
}

TEST_CASE("positions restart in each document and document ends mark the boundaries") {
  const at::Tensor positions = document_positions(12, 3);
  CHECK(positions.sizes() == at::IntArrayRef{1, 12});
  CHECK(is(positions, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  CHECK(is(document_ends(positions), {0, 4, 8, 12}));
  CHECK((document_ends(positions).scalar_type() == at::kInt));
}

TEST_CASE("documents may have any length and one token is enough") {
  CHECK(is(document_ends(at::tensor({0, 1, 2, 0, 0, 1}, at::kLong).unsqueeze(0)), {0, 3, 4, 6}));
  CHECK(is(document_ends(at::tensor({0}, at::kInt)), {0, 1}));
  CHECK(is(document_ends(at::tensor({0, 1, 0, 1}, at::kLong).view({2, 2})), {0, 2, 4}));
}

TEST_CASE("padding grows from row to row up to the requested share of the batch") {
  CHECK(is(padding_mask(4, 8, 0.25).sum(1), {7, 6, 5, 4}));
  CHECK(is(padding_mask(2, 4, 0.25), {1, 1, 1, 0, 1, 1, 0, 0}));
  CHECK(is(padding_mask(1, 10, 0.3).sum(1), {7}));
  CHECK(padding_mask(64, 4096, 0.4).to(at::kDouble).mean().item<double>() == doctest::Approx(0.6).epsilon(0.001));
  CHECK(padding_mask(64, 3, 0.5).select(1, 0).all().item<bool>());
  CHECK_FALSE(padding_mask(1, 2, 0.001).all().item<bool>());
}

TEST_CASE("labels equal the tokens and are ignored at padding") {
  CHECK(is(labels_of(at::tensor({5, 6, 7}), at::tensor({1, 1, 0})), {5, 6, -100}));
}

}  // namespace
}  // namespace memtune::frontend::token_rows_test
