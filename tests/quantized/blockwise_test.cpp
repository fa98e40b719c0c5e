// That bytes and values are those of bitsandbytes is checked in tests/models/check_adapters.py.
#include "core/quantized/blockwise.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace memtune::quantized {
namespace {

TEST_CASE("numbers in 8 bits come back within a hundredth of their block's largest, which comes back as it was") {
  at::manual_seed(1);
  const at::Tensor numbers = at::randn({1000});
  const Blockwise packed = pack_blockwise(numbers);
  CHECK(packed.bytes.sizes() == at::IntArrayRef{1000});
  CHECK(packed.largest.sizes() == at::IntArrayRef{4});
  const at::Tensor back = unpack_blockwise(packed);
  CHECK((back - numbers).abs().max().item<double>() < 0.01 * numbers.abs().max().item<double>());
  const at::Tensor first = numbers.slice(0, 0, 256);
  const int64_t largest = first.abs().argmax().item<int64_t>();
  CHECK(at::equal(packed.largest[0], first[largest].abs()));
}

TEST_CASE("a block of zeros is packed as zeros and none of its neighbour's business") {
  const at::Tensor numbers = at::cat({at::zeros({256}), at::ones({3})});
  CHECK(at::equal(unpack_blockwise(pack_blockwise(numbers)), numbers));
}

}  // namespace
}  // namespace memtune::quantized
