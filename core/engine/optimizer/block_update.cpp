#include "core/engine/optimizer/block_update.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "core/base/device/cuda_kernels.h"
#include "core/base/device/torch/kernels.h"

namespace memtune::optimizer {
namespace {

using quantized::BlockwiseEightBitCodesAndAbsmax;

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8, kDecay = 0.01;
constexpr int64_t kAtATime = int64_t{1} << 24;

double rate(const AdamWLearningRateAndStep& step) { return -step.learning_rate / (1 - std::pow(kBeta1, step.number)); }
double keep(const AdamWLearningRateAndStep& step) { return 1 - step.learning_rate * kDecay; }
double root(const AdamWLearningRateAndStep& step) { return std::sqrt(1 - std::pow(kBeta2, step.number)); }

device::QuantizedMomentPointers pointers(const BlockwiseEightBitCodesAndAbsmax& moment, const at::Tensor& map) {
  return {moment.bytes.data_ptr<uint8_t>(), moment.largest.data_ptr<float>(), map.const_data_ptr<float>()};
}

// Rounds to float where LibTorch's CUDA operators do: they invert a divisor before rounding it.
device::QuantizedAdamWArguments kernel_step(const at::Tensor& values, const at::Tensor& gradient,
                                            const AdamWLearningRateAndStep& step) {
  device::QuantizedAdamWArguments made;
  made.values = values.data_ptr();
  made.gradient = gradient.const_data_ptr();
  made.type = device::kernel_dtype(values.scalar_type());
  made.count = values.numel();
  made.beta1 = static_cast<float>(kBeta1);
  made.weight1 = static_cast<float>(1 - kBeta1);
  made.beta2 = static_cast<float>(kBeta2);
  made.weight2 = static_cast<float>(1 - kBeta2);
  made.keep = static_cast<float>(keep(step));
  made.rate = static_cast<float>(rate(step));
  made.root = static_cast<float>(1 / root(step));
  made.epsilon = static_cast<float>(kEpsilon);
  return made;
}

}  // namespace

void update(at::Tensor values, const at::Tensor& gradient, at::Tensor first, at::Tensor second,
            const AdamWLearningRateAndStep& step) {
  const at::Tensor slope = gradient.to(at::kFloat);
  first.mul_(kBeta1).add_(slope, 1 - kBeta1);
  second.mul_(kBeta2).addcmul_(slope, slope, 1 - kBeta2);
  at::Tensor wide = values.to(at::kFloat);
  wide.mul_(keep(step));
  const at::Tensor divisor = second.sqrt().div_(root(step)).add_(kEpsilon);
  wide.addcdiv_(first, divisor, rate(step));
  if (!wide.is_same(values)) values.copy_(wide);
}

void update_in_blocks(const at::Tensor& values, const at::Tensor& gradient,
                      const BlockwiseEightBitCodesAndAbsmax& first, const BlockwiseEightBitCodesAndAbsmax& second,
                      const QuantizedMomentCodebooks& maps, const AdamWLearningRateAndStep& step) {
  if (values.is_meta()) return;  // the kernel of CUDA takes no other memory
  const auto* kernels = device::kernels_for(values.device(), values.scalar_type());
  if (!kernels || gradient.scalar_type() != values.scalar_type())
    return update_in_blocks_by_operators(values, gradient, first, second, maps, step);
  device::QuantizedAdamWArguments made = kernel_step(values, gradient, step);
  made.first = pointers(first, maps.with_sign);
  made.second = pointers(second, maps.without_sign);
  kernels->step_adamw(made, values.device().index());
  // The kernel does not bump versions. Autograd and the engines use them to reject saved tensors that were overwritten.
  for (const at::Tensor& written : {values, first.bytes, first.largest, second.bytes, second.largest})
    written.unsafeGetTensorImpl()->bump_version();
}

void update_in_blocks_by_operators(const at::Tensor& values, const at::Tensor& gradient,
                                   const BlockwiseEightBitCodesAndAbsmax& first,
                                   const BlockwiseEightBitCodesAndAbsmax& second, const QuantizedMomentCodebooks& maps,
                                   const AdamWLearningRateAndStep& step) {
  for (int64_t begin = 0; begin < values.numel(); begin += kAtATime) {
    const int64_t count = std::min(kAtATime, values.numel() - begin);
    const at::Tensor m = quantized::unpack_blockwise(first, begin, count, maps.with_sign);
    const at::Tensor v = quantized::unpack_blockwise(second, begin, count, maps.without_sign);
    update(values.narrow(0, begin, count), gradient.narrow(0, begin, count), m, v, step);
    quantized::pack_blockwise(m, first, begin, maps.with_sign);
    quantized::pack_blockwise(v, second, begin, maps.without_sign);
  }
}

}  // namespace memtune::optimizer
