// tests/models/check_adapters.py compares bytes and values with bitsandbytes.
#include "core/model/quantized/blockwise.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/model/quantized/dynamic_map.h"
namespace memtune::quantized::blockwise_test {
namespace {

constexpr int64_t kBlock = 256;

TEST_CASE("numbers in 8 bits unpack within a hundredth and the largest of a block is stored exactly") {
  at::manual_seed(1);
  const at::Tensor numbers = at::randn({1000});
  const BlockwiseEightBitCodesAndAbsmax packed = pack_blockwise(numbers);
  CHECK(packed.bytes.sizes() == at::IntArrayRef{1000});
  CHECK(packed.largest.sizes() == at::IntArrayRef{4});
  const at::Tensor back = unpack_blockwise(packed);
  CHECK((back - numbers).abs().max().item<double>() < 0.01 * numbers.abs().max().item<double>());
  const at::Tensor first = numbers.slice(0, 0, 256);
  const int64_t largest = first.abs().argmax().item<int64_t>();
  CHECK(at::equal(packed.largest[0], first[largest].abs()));
}

TEST_CASE("a block of zeros unpacks to zeros and does not affect its neighbour") {
  const at::Tensor numbers = at::cat({at::zeros({256}), at::ones({3})});
  CHECK(at::equal(unpack_blockwise(pack_blockwise(numbers)), numbers));
}

TEST_CASE("the table has 256 ascending values and is symmetric except for its ends") {
  const at::Tensor with_sign = dynamic_map(true, c10::kCPU), without = dynamic_map(false, c10::kCPU);
  for (const at::Tensor& map : {with_sign, without}) {
    CHECK(map.numel() == 256);
    CHECK(map.diff().gt(0).all().item<bool>());
    CHECK(map[255].item<float>() == 1);
  }
  CHECK(without[0].item<float>() == 0);
  CHECK(at::equal(with_sign.slice(0, 0, 127), with_sign.slice(0, 128, 255).neg().flip(0)));
}

TEST_CASE("the largest value of a block is exact and others within a table step even in a partial block") {
  const at::Tensor map = dynamic_map(true, c10::kCPU);
  at::manual_seed(1);
  const at::Tensor values = at::randn({3 * kBlock + 17}) * 5;
  const BlockwiseEightBitCodesAndAbsmax packed = make_blockwise(values.numel(), c10::kCPU);
  CHECK(packed.largest.numel() == 4);
  pack_blockwise(values, packed, 0, map);
  const at::Tensor back = unpack_blockwise(packed, 0, values.numel(), map);
  for (int64_t begin = 0; begin < values.numel(); begin += kBlock) {
    const at::Tensor block = values.slice(0, begin, begin + kBlock);
    const at::Tensor found = back.slice(0, begin, begin + kBlock);
    const double largest = block.abs().max().item<double>();
    CHECK(packed.largest[begin / kBlock].item<double>() == largest);
    CHECK((found - block).abs().max().item<double>() <= largest * 0.0071);  // half of 0.9 / 64
  }
  pack_blockwise(at::zeros({kBlock}), packed, kBlock, map);  // one block alone, with a scale of 0
  CHECK(unpack_blockwise(packed, kBlock, kBlock, map).eq(0).all().item<bool>());
  CHECK(at::equal(unpack_blockwise(packed, 0, kBlock, map), back.slice(0, 0, kBlock)));
}

}  // namespace
}  // namespace memtune::quantized::blockwise_test
