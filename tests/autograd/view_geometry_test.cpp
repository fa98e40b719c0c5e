// A restored tensor must have the size, stride, offset and dtype of the saved one. Other engines got each of these
// wrong.
#include "core/engine/autograd/view_geometry.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
namespace memtune::autograd::view_geometry_test {
namespace {

void check_round_trip(const at::Tensor& tensor) {
  at::Tensor restored = ViewGeometry(tensor).view(tensor.storage());
  CHECK(restored.sizes() == tensor.sizes());
  CHECK(restored.strides() == tensor.strides());
  CHECK(restored.storage_offset() == tensor.storage_offset());
  CHECK(restored.dtype() == tensor.dtype());
  CHECK(restored.is_conj() == tensor.is_conj());
  CHECK(restored.is_neg() == tensor.is_neg());
  CHECK(restored.unsafeGetTensorImpl()->is_wrapped_number() == tensor.unsafeGetTensorImpl()->is_wrapped_number());
  CHECK(restored.is_alias_of(tensor));
  CHECK(at::equal(restored, tensor));
  CHECK_FALSE(restored.requires_grad());
}

TEST_CASE("every kind of view is restored exactly") {
  at::Tensor base = at::arange(24, at::kFloat).view({4, 6});
  check_round_trip(base);
  check_round_trip(base.t());
  check_round_trip(base.slice(1, 2, 5));
  check_round_trip(base.slice(0, 1, 4, 2).t());
  check_round_trip(base.slice(1, 0, 1).expand({4, 6}));
  check_round_trip(base.select(0, 2).select(0, 3));
  check_round_trip(base.slice(0, 2, 2));
  check_round_trip(at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast));
  check_round_trip(at::arange(6).to(at::kBool));
  check_round_trip(base.view(at::kInt));
  const at::Tensor complex = at::complex(base, base + 1);
  check_round_trip(at::conj(complex).slice(1, 2, 5));
  check_round_trip(at::imag(at::conj(complex)));
  const at::Tensor number = at::scalar_tensor(2.5, at::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  check_round_trip(number);
}

TEST_CASE("tensors that are not plain bytes are recognised") {
  CHECK(is_plain(at::ones({2})));
  CHECK_FALSE(is_plain(at::ones({2, 2}).to_sparse()));
  CHECK_FALSE(is_plain(at::_efficientzerotensor({2})));
}

}  // namespace
}  // namespace memtune::autograd::view_geometry_test
