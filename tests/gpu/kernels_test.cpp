// Compares the kernels of the CUDA module with the operators that they replace. They must give the same bits for each
// size and allocate only their result.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/device/cuda_kernels.h"
#include "core/base/device/torch/make_device.h"
#include "core/base/device/torch/torch_device.h"
#include "core/engine/optimizer/block_adamw.h"
#include "core/engine/optimizer/block_update.h"
#include "core/model/quantized/dynamic_map.h"
#include "core/model/quantized/nf4.h"
#include "tests/ops/log_probs_case.h"
#include "tests/support/rounding.h"
#include "tests/support/skip.h"

namespace memtune::tests {
namespace {

using namespace optimizer;
using namespace quantized;

const std::string kNoKernels = "the module was built without nvcc";

const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kHalf, at::kBFloat16};

// Sizes around the limits of blocks, threads, warps and launches.
const std::vector<int64_t> kSizes = {1,
                                     2,
                                     7,
                                     8,
                                     63,
                                     64,
                                     65,
                                     127,
                                     255,
                                     256,
                                     257,
                                     2047,
                                     2049,
                                     4096,
                                     4096 + 3,
                                     16384 - 1,
                                     16384,
                                     16384 + 64 * 3 + 5,
                                     1 << 20,
                                     (1 << 22) + 3,
                                     (1 << 24) + 4099};

c10::Device cuda() {
  static const auto device = device::make_device("cuda");
  return device::torch_device(*device);
}

at::Tensor drawn(int64_t count, at::ScalarType type, double scale = 1) {
  return at::randn({count}, at::TensorOptions(cuda())).mul_(scale).to(type);
}

struct Trained {
  at::Tensor values;
  BlockwiseEightBitCodesAndAbsmax first, second;

  Trained clone() const {
    return {
        values.clone(), {first.bytes.clone(), first.largest.clone()}, {second.bytes.clone(), second.largest.clone()}};
  }
};

Trained made(const at::Tensor& values) {
  return {values, make_blockwise(values.numel(), cuda()), make_blockwise(values.numel(), cuda())};
}

// Compares bits, so NaNs with the same bits are equal.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.contiguous().view(at::kByte), b.contiguous().view(at::kByte));
}

void check_same(const Trained& found, const Trained& expected) {
  CHECK(same_bits(found.values, expected.values));
  CHECK(at::equal(found.first.bytes, expected.first.bytes));
  CHECK(at::equal(found.second.bytes, expected.second.bytes));
  CHECK(at::equal(found.first.largest.nan_to_num(-1), expected.first.largest.nan_to_num(-1)));
  CHECK(at::equal(found.second.largest.nan_to_num(-1), expected.second.largest.nan_to_num(-1)));
}

QuantizedMomentCodebooks maps() { return {dynamic_map(true, cuda()), dynamic_map(false, cuda())}; }

void step_both(Trained& kernel, Trained& operators, const at::Tensor& gradient, const AdamWLearningRateAndStep& step) {
  static const QuantizedMomentCodebooks known = maps();
  update_in_blocks(kernel.values, gradient, kernel.first, kernel.second, known, step);
  update_in_blocks_by_operators(operators.values, gradient, operators.first, operators.second, known, step);
}

// The peak of allocated bytes during `run`, without the bytes allocated before.
template <typename Run>
int64_t peak_bytes(Run run) {
  const auto device = device::make_device("cuda");
  device->synchronize();
  device->reset_peak();
  const int64_t before = device->memory().allocated;
  run();
  device->synchronize();
  return device->memory().peak_allocated - before;
}

}  // namespace

TEST_CASE("NF4 unpacks to the same bits as the operators and the CPU for every size and type") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  at::manual_seed(1);
  for (const int64_t size : kSizes)
    for (const auto magnitudes : {Nf4AbsmaxScaleEncoding::plain, Nf4AbsmaxScaleEncoding::quantized}) {
      const at::Tensor weight = drawn(size, at::kFloat, 0.02);
      weight.slice(0, 0, size / 3).mul_(50);
      weight.slice(0, size / 2, size / 2 + 64).zero_();
      const Nf4Weight packed = pack_nf4(weight, magnitudes);
      const auto on_cpu = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.cpu() : tensor; };
      const Nf4Weight copy = {packed.bytes.cpu(), packed.largest.cpu(), on_cpu(packed.largest_of_largest),
                              on_cpu(packed.mean)};
      for (const at::ScalarType type : kTypes) {
        CAPTURE(size);
        CAPTURE(c10::toString(type));
        const at::Tensor found = unpack_nf4(packed, {size}, type);
        CHECK((found.scalar_type() == type));
        CHECK(same_bits(found, unpack_nf4_by_operators(packed, {size}, type)));
        CHECK(same_bits(found.cpu(), unpack_nf4(copy, {size}, type)));
      }
    }
}

TEST_CASE("unpacking NF4 allocates only its result") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  for (const auto magnitudes : {Nf4AbsmaxScaleEncoding::plain, Nf4AbsmaxScaleEncoding::quantized}) {
    const Nf4Weight packed = pack_nf4(drawn(4096 * 1024, at::kFloat), magnitudes);
    for (const at::ScalarType type : kTypes) {
      unpack_nf4(packed, {4096, 1024}, type);  // the first call builds the table of magnitudes
      at::Tensor weight;
      const int64_t peak = peak_bytes([&] { weight = unpack_nf4(packed, {4096, 1024}, type); });
      CHECK(peak == static_cast<int64_t>(weight.nbytes()));
    }
  }
}

TEST_CASE("NF4 unpacking runs after the queued work of the current stream") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  const at::Tensor weight = drawn(1 << 22, at::kFloat);
  const Nf4Weight packed = pack_nf4(weight, Nf4AbsmaxScaleEncoding::plain);
  const at::Tensor expected = unpack_nf4_by_operators(packed, {1 << 22}, at::kBFloat16);
  const at::Tensor bytes = packed.bytes.clone();
  device::make_device("cuda")->synchronize();
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  const c10::Stream before = guard.exchangeStream(guard.getStreamFromGlobalPool(cuda()));
  auto busy = at::zeros({int64_t{256} << 20}, at::TensorOptions(at::kByte).device(cuda()));
  packed.bytes.zero_();
  for (int i = 0; i < 20; ++i) busy.fill_(i);
  packed.bytes.copy_(bytes);
  CHECK(at::equal(unpack_nf4(packed, {1 << 22}, at::kBFloat16), expected));
  guard.exchangeStream(before);
  device::make_device("cuda")->synchronize();
}

TEST_CASE("8-bit AdamW gives the same bits as the operators for every size and type") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  at::manual_seed(2);
  for (const int64_t size : kSizes)
    for (const at::ScalarType type : kTypes) {
      CAPTURE(size);
      CAPTURE(c10::toString(type));
      Trained kernel = made(drawn(size, type)), operators = kernel.clone();
      for (int step = 1; step <= 4; ++step) {
        CAPTURE(step);
        const at::Tensor gradient = drawn(size, type, step == 3 ? 1e-4 : 0.1);
        if (step == 2) gradient.slice(0, 0, size / 2).zero_();
        step_both(kernel, operators, gradient, {0.01, static_cast<double>(step)});
        check_same(kernel, operators);
      }
    }
}

TEST_CASE("zero and infinite and NaN gradients have the same effect as with the operators") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  constexpr int64_t kCount = 5 * 256 + 9;
  for (const at::ScalarType type : kTypes) {
    CAPTURE(c10::toString(type));
    Trained kernel = made(drawn(kCount, type)), operators = kernel.clone();
    const at::Tensor zeros = at::zeros({kCount}, kernel.values.options());
    step_both(kernel, operators, zeros, {0.01, 1});
    check_same(kernel, operators);
    const at::Tensor gradient = drawn(kCount, type);
    gradient[300] = std::numeric_limits<double>::infinity();
    gradient[600] = std::numeric_limits<double>::quiet_NaN();
    gradient[kCount - 1] = -std::numeric_limits<double>::infinity();
    step_both(kernel, operators, gradient, {0.01, 2});
    CHECK(at::equal(kernel.values.isnan(), operators.values.isnan()));
    CHECK(at::equal(kernel.values.nan_to_num(0), operators.values.nan_to_num(0)));
    CHECK(at::equal(kernel.first.bytes, operators.first.bytes));
    CHECK(at::equal(kernel.second.bytes, operators.second.bytes));
    CHECK(kernel.first.largest.isnan().sum().item<int64_t>() == 1);
  }
}

TEST_CASE("a parameter at an unaligned address is stepped") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  for (const at::ScalarType type : kTypes) {
    CAPTURE(c10::toString(type));
    const at::Tensor values = drawn(5000, type), slopes = drawn(5000, type);
    Trained kernel = made(values.clone().narrow(0, 1, 4997)), operators = made(values.narrow(0, 1, 4997).clone());
    step_both(kernel, operators, slopes.narrow(0, 3, 4997), {0.01, 1});
    check_same(kernel, operators);
  }
}

TEST_CASE("a step of 8-bit AdamW allocates no memory") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  for (const at::ScalarType type : kTypes) {
    const at::Tensor parameter = drawn(4096 * 1024 + 3, type).requires_grad_();
    BitsandbytesAdamW adamw({"adamw_8bit", 0.01}, {parameter}, /*in_8_bits=*/true, /*paged=*/false);
    const auto step = [&] {
      parameter.mutable_grad() = at::ones_like(parameter).detach();
      return peak_bytes([&] { adamw.step(); });
    };
    step();  // the first step makes the moments
    const auto version = parameter._version();
    CHECK(step() == 0);
    CHECK(parameter._version() > version);
  }
}

TEST_CASE("log probabilities by kernels equal the plain ones") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  using ops::chunked_log_probs_test::Case;
  for (const int64_t vocabulary : {3, 11, 2048, 2051, 32771}) {
    CAPTURE(vocabulary);
    for (const ops::LogitScaleAndSoftcap& scaling : {ops::LogitScaleAndSoftcap{}, {0.3, std::nullopt}, {2.5, 3.0}}) {
      CAPTURE(scaling.scale);
      for (const bool biased : {false, true}) {
        Case c(3, 9, vocabulary, biased, cuda());
        c.scaling = scaling;
        c.check();
        for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
          CAPTURE(c10::toString(type));
          Case rounded(3, 9, vocabulary, biased, at::TensorOptions(cuda()).dtype(type));
          rounded.scaling = scaling;
          const auto expected = rounded.train(rounded.plain()), found = rounded.train(rounded.by_tiles());
          for (size_t i = 0; i < found.size(); ++i)
            CHECK(relative_difference(found[i], expected[i]) < 4 * unit_roundoff(type));
        }
      }
    }
  }
  Case(1, 4100, 3, true, cuda()).check();  // a second tile of tokens
}

TEST_CASE("log probabilities by kernels need no work space beside one tile") {
  if (!device::cuda_kernels()) MEMTUNE_SKIP(kNoKernels);
  const ops::chunked_log_probs_test::Case c(1, 4096, 40000, false, at::TensorOptions(cuda()).dtype(at::kBFloat16));
  (void)c.by_tiles();  // makes the work space of cuBLAS
  const int64_t tile = 4096 * int64_t{32768} * 2, beside = int64_t{2} << 20;
  CHECK(peak_bytes([&] { (void)c.by_tiles(); }) < tile + beside);
}

}  // namespace memtune::tests
