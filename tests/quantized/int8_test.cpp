// Tests what bytes and values mean. tests/models/check_adapters.py compares them with bitsandbytes.
#include "core/model/quantized/int8.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/rounding.h"
namespace memtune::quantized::int8_test {

TEST_CASE("the largest of a row maps to 127 and others scale with it and round half to even") {
  const at::Tensor weight = at::tensor({254.0F, -127.0F, 1.0F, 3.0F, 0.9F, 0.0F}).view({2, 3});
  const Int8Weight packed = pack_int8(weight);
  CHECK(at::equal(packed.numbers, at::tensor({127, -64, 0, 127, 38, 0}, at::kChar).view({2, 3})));
  CHECK(at::equal(packed.largest, at::tensor({254.0F, 3.0F})));
  CHECK(unpack_int8(packed, at::kFloat)[0][1].item<float>() == doctest::Approx(-128));
}

TEST_CASE("a row of zeros unpacks to zeros") {
  const Int8Weight packed = pack_int8(at::zeros({2, 5}));
  CHECK(at::equal(unpack_int8(packed, at::kFloat), at::zeros({2, 5})));
}

TEST_CASE("columns with outliers are multiplied unquantized and the others in 8 bits") {
  at::manual_seed(5);
  const Int8Weight weight = pack_int8(at::randn({9, 40}));
  const at::Tensor whole = unpack_int8(weight, at::kFloat);
  at::Tensor x = at::randn({6, 40}).clamp(-3, 3);
  CHECK(multiply_int8(x, weight, {}).outliers.numel() == 0);
  x[2][7] = 1000;
  x[4][30] = -6;
  const at::Tensor bias = at::ones({9});
  const Int8MatmulOutputAndOutlierColumns product = multiply_int8(x, weight, bias);
  CHECK(at::equal(product.outliers, at::stack({x.select(1, 7), x.select(1, 30)}, 1)));
  // Columns without an outlier are rounded to half precision, then to a 127th of the largest of their row. 64 sums are
  // rounded.
  const at::Tensor largest = x.abs().masked_fill(x.abs() >= 6, 0).amax(1, true);
  const at::Tensor rounded = largest / 127 / 2 + x.abs() * tests::unit_roundoff(at::kHalf);
  const at::Tensor allowed = rounded.index_fill(1, at::tensor({7, 30}, at::kLong), 0).mm(whole.abs().t()) +
                             64 * tests::unit_roundoff(at::kFloat) * at::linear(x.abs(), whole.abs(), bias);
  const at::Tensor apart = (product.output - at::linear(x, whole, bias)).abs();
  CHECK(apart.le(allowed).all().item<bool>());
  CHECK(apart.gt(0).any().item<bool>());
}

TEST_CASE("a matrix too large for one chunk is quantized like its single rows") {
  at::manual_seed(6);
  const at::Tensor weight = at::randn({5, 1 << 20});
  const Int8Weight all = pack_int8(weight), last = pack_int8(weight.narrow(0, 4, 1));
  CHECK(at::equal(all.numbers[4], last.numbers[0]));
  CHECK(at::equal(all.largest[4], last.largest[0]));
}

}  // namespace memtune::quantized::int8_test
