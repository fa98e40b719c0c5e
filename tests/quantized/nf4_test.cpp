// tests/models/check_adapters.py compares bytes and values with bitsandbytes.
#include "core/model/quantized/nf4.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
namespace memtune::quantized::nf4_test {
namespace {

TEST_CASE("packing by operators for other devices gives the same bytes as on the CPU") {
  at::manual_seed(2);
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& shape : std::vector<std::vector<int64_t>>{{4, 64}, {33, 96}, {5, 127}, {1, 1}, {2100, 4096}})
      for (const auto magnitudes : {Nf4AbsmaxScaleEncoding::plain, Nf4AbsmaxScaleEncoding::quantized}) {
        CAPTURE(shape[0]);
        const at::Tensor weight = (at::randn(shape) * 3).to(type);
        const Nf4Weight packed = pack_nf4(weight, magnitudes), other = pack_nf4_by_operators(weight, magnitudes);
        REQUIRE(at::equal(packed.bytes, other.bytes));
        REQUIRE(at::equal(packed.largest, other.largest));
        const at::Tensor back = unpack_nf4(packed, shape, type);
        REQUIRE(at::equal(back, unpack_nf4_by_operators(packed, shape, type)));
        CHECK((back - weight).abs().max().item<double>() < 0.2 * weight.abs().max().item<double>());
      }
}

TEST_CASE("a weight takes half a byte per number plus an eighth of a bit with double quantization") {
  const at::Tensor weight = at::randn({256, 512});
  const Nf4Weight packed = pack_nf4(weight, Nf4AbsmaxScaleEncoding::quantized);
  CHECK(packed.bytes.sizes() == at::IntArrayRef{256 * 512 / 2, 1});
  CHECK(packed.largest.nbytes() == 256 * 512 / 64);
  CHECK(packed.largest_of_largest.nbytes() == 256 * 512 / 64 / 256 * 4);
  CHECK_FALSE(pack_nf4(weight, Nf4AbsmaxScaleEncoding::plain).mean.defined());
}

TEST_CASE("numbers of the NF4 code unpack unchanged") {
  const at::Tensor once = unpack_nf4(pack_nf4(at::randn({4, 64}), Nf4AbsmaxScaleEncoding::plain), {4, 64}, at::kFloat);
  CHECK(at::equal(unpack_nf4(pack_nf4(once, Nf4AbsmaxScaleEncoding::plain), {4, 64}, at::kFloat), once));
  CHECK(at::equal(unpack_nf4(pack_nf4(at::zeros({2, 64}), Nf4AbsmaxScaleEncoding::plain), {2, 64}, at::kFloat),
                  at::zeros({2, 64})));
}

}  // namespace
}  // namespace memtune::quantized::nf4_test
