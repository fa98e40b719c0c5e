// One AdamW step with 8-bit moments. A warp updates a block of 256 numbers, eight per thread, so the block's largest
// magnitudes stay within the warp. Arithmetic equals that of LibTorch's operators: each operation rounds once
// (-fmad=false); fmaf is used where LibTorch fuses multiply and add.
#include <algorithm>

#include "core/base/device/cuda/cuda_check.h"
#include "core/base/device/cuda/launches.h"
#include "core/base/device/cuda/several_numbers.cuh"

namespace memtune::device {
namespace {

constexpr int kWarp = 32, kWarps = 8, kNumbers = 256;
constexpr int kBlocksAProcessor = 8;  // occupancy limit with 256 threads of 32 registers
static_assert(kWarp * kEach == kNumbers);

// The value of each byte, and the rounding boundaries between values.
struct Map {
  float values[kNumbers];
  float middles[kNumbers - 1];
};

__device__ void load(Map& map, const float* values) {
  for (int i = static_cast<int>(threadIdx.x); i < kNumbers; i += kWarp * kWarps) {
    map.values[i] = values[i];
    if (i + 1 < kNumbers) map.middles[i] = (values[i] + values[i + 1]) / 2;
  }
}

// NaN counts as the largest, as in amax.
__device__ float larger(float a, float b) { return a > b || isnan(a) ? a : b; }

__device__ float largest_of_warp(float number) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) number = larger(__shfl_xor_sync(~0U, number, lane), number);
  return number;
}

// Index of the first boundary that is not below `part`.
__device__ uint8_t nearest(float part, const Map& map) {
  int index = 0;
  for (int step = kNumbers / 2; step > 0; step /= 2)
    if (map.middles[index + step - 1] < part) index += step;
  return static_cast<uint8_t>(index);
}

__device__ float part_of(float number, float inverse) {
  const float part = number * inverse;
  return isnan(part) ? 0 : fminf(fmaxf(part, -1), 1);
}

__device__ void unpack(const QuantizedMomentPointers& moment, const Map& map, int64_t begin, int64_t left,
                       float (&to)[kEach]) {
  const Several<uint8_t> bytes = read(moment.bytes + begin, left);
  const float largest = moment.largest[begin / kNumbers];
  for (int i = 0; i < kEach; ++i) to[i] = i < left ? map.values[bytes.numbers[i]] * largest : 0;
}

__device__ void pack(const float (&from)[kEach], const QuantizedMomentPointers& moment, const Map& map, int64_t begin,
                     int64_t left) {
  float largest = 0;
  for (int i = 0; i < kEach; ++i)
    if (i < left) largest = larger(fabsf(from[i]), largest);
  largest = largest_of_warp(largest);
  if (threadIdx.x % kWarp == 0) moment.largest[begin / kNumbers] = largest;
  const float inverse = 1 / largest;
  Several<uint8_t> bytes;
  for (int i = 0; i < kEach; ++i) bytes.numbers[i] = nearest(part_of(from[i], inverse), map);
  write(moment.bytes + begin, bytes, left);
}

__device__ float moved(float value, float slope, float& first, float& second, const QuantizedAdamWArguments& step) {
  first = fmaf(step.weight1, slope, first * step.beta1);
  second = fmaf(step.weight2, slope * slope, second * step.beta2);
  const float divisor = sqrtf(second) * step.root + step.epsilon;
  return fmaf(step.rate, first / divisor, value * step.keep);
}

template <typename T>
__global__ void __launch_bounds__(kWarp* kWarps) update(const QuantizedAdamWArguments step) {
  __shared__ Map with_sign, without_sign;
  load(with_sign, step.first.map);
  load(without_sign, step.second.map);
  __syncthreads();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kWarps * kNumbers;
  int64_t block = (static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp) * kNumbers;
  for (; block < step.count; block += stride) {  // uniform within a warp
    const int64_t begin = block + threadIdx.x % kWarp * kEach, left = step.count - begin;
    const Several<T> slopes = read(static_cast<const T*>(step.gradient) + begin, left);
    Several<T> values = read(static_cast<T*>(step.values) + begin, left);
    float first[kEach], second[kEach];
    unpack(step.first, with_sign, begin, left, first);
    unpack(step.second, without_sign, begin, left, second);
    __syncwarp();  // all lanes have read the largest magnitudes, which are overwritten below
    for (int i = 0; i < kEach; ++i)
      values.numbers[i] =
          rounded<T>(moved(to_float(values.numbers[i]), to_float(slopes.numbers[i]), first[i], second[i], step));
    write(static_cast<T*>(step.values) + begin, values, left);
    pack(first, step.first, with_sign, begin, left);
    pack(second, step.second, without_sign, begin, left);
  }
}

template <typename T>
void launch(const QuantizedAdamWArguments& step, int processors, cudaStream_t stream) {
  constexpr int64_t kOfBlock = int64_t{kWarps} * kNumbers;
  if (step.count == 0) return;
  const int64_t blocks =
      std::min<int64_t>((step.count + kOfBlock - 1) / kOfBlock, int64_t{processors} * kBlocksAProcessor);
  update<T><<<static_cast<unsigned>(blocks), kWarp * kWarps, 0, stream>>>(step);
  check_cuda(cudaGetLastError(), "the launch of the kernel that steps AdamW in 8 bits");
}

}  // namespace

void launch_step_adamw(const QuantizedAdamWArguments& step, int processors, cudaStream_t stream) {
  switch (step.type) {
    case KernelDtype::float32: return launch<float>(step, processors, stream);
    case KernelDtype::float16: return launch<__half>(step, processors, stream);
    case KernelDtype::bfloat16: return launch<__nv_bfloat16>(step, processors, stream);
  }
}

}  // namespace memtune::device
