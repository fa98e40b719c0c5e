// Folds tiles of logits into the statistics of a log-softmax, a block of threads per token, and turns them into
// gradients in place.
#include "core/base/device/cuda/cuda_check.h"
#include "core/base/device/cuda/launches.h"
#include "core/base/device/cuda/several_numbers.cuh"

namespace memtune::device {
namespace {

constexpr int kThreads = 256, kWarp = 32, kWarps = kThreads / kWarp;

struct Scaling {
  float scale, softcap;
  __device__ float share(float logit) const { return tanhf(logit * scale / softcap); }
  __device__ float operator()(float logit) const { return softcap > 0 ? share(logit) * softcap : logit * scale; }
};

// The sum of exponentials relative to the largest logit.
struct Sum {
  float largest = -INFINITY, sum = 0;

  __device__ void add(const Sum& other) {
    const float now = fmaxf(largest, other.largest);
    if (now == -INFINITY) return;
    sum = sum * expf(largest - now) + other.sum * expf(other.largest - now);
    largest = now;
  }
  __device__ void add_lanes() {
    for (int step = kWarp / 2; step > 0; step /= 2) {
      Sum other;
      other.largest = __shfl_down_sync(0xffffffffu, largest, step);
      other.sum = __shfl_down_sync(0xffffffffu, sum, step);
      add(other);
    }
  }
};

template <typename T>
__global__ void fold(const CrossEntropyLogitTile tile, const OnlineCrossEntropyStatePointers statistics) {
  const Scaling scaled{tile.scale, tile.softcap};
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(tile.logits) + row * tile.stride;
  Sum sum;
  for (int64_t column = int64_t{threadIdx.x} * kEach; column < tile.columns; column += int64_t{kThreads} * kEach) {
    const int64_t left = tile.columns - column;
    const Several<T> several = read(logits + column, left);
    float z[kEach];
    Sum part;
    for (int i = 0; i < kEach; ++i) {
      z[i] = i < left ? scaled(to_float(several.numbers[i])) : -INFINITY;
      part.largest = fmaxf(part.largest, z[i]);
    }
    if (part.largest == -INFINITY) continue;
    for (int i = 0; i < kEach; ++i) part.sum += expf(z[i] - part.largest);
    sum.add(part);
  }
  sum.add_lanes();
  __shared__ Sum of_warp[kWarps];
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  Sum all{statistics.largest[row], statistics.sum[row]};
  for (const Sum& part : of_warp) all.add(part);
  statistics.largest[row] = all.largest;
  statistics.sum[row] = all.sum;
  const int64_t target = tile.targets[row] - tile.first_column;
  if (target >= 0 && target < tile.columns) statistics.at_target[row] = scaled(to_float(logits[target]));
}

template <typename T>
__global__ void differentiate(const CrossEntropyLogitTile tile, const float* normalizers, const float* outer) {
  const Scaling scaled{tile.scale, tile.softcap};
  const int64_t row = blockIdx.x, column = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * kEach;
  const int64_t left = tile.columns - column, target = tile.targets[row] - tile.first_column;
  if (left <= 0) return;
  T* logits = static_cast<T*>(tile.logits) + row * tile.stride + column;
  Several<T> several = read(logits, left);
  for (int i = 0; i < kEach; ++i) {
    const float logit = to_float(several.numbers[i]);
    const float share = tile.softcap > 0 ? scaled.share(logit) : 0;
    const float probability = expf(scaled(logit) - normalizers[row]);
    float gradient = outer[row] * ((column + i == target ? 1.0f : 0.0f) - probability);
    if (tile.softcap > 0) gradient *= 1 - share * share;
    several.numbers[i] = rounded<T>(gradient * tile.scale);
  }
  write(logits, several, left);
}

template <typename Launch>
void with_type(KernelDtype type, const Launch& launch) {
  switch (type) {
    case KernelDtype::float32: return launch(float());
    case KernelDtype::float16: return launch(__half());
    case KernelDtype::bfloat16: return launch(__nv_bfloat16());
  }
}

}  // namespace

void launch_fold_logits(const CrossEntropyLogitTile& tile, const OnlineCrossEntropyStatePointers& statistics,
                        cudaStream_t stream) {
  if (tile.rows == 0) return;
  with_type(tile.type, [&]<typename T>(T) {
    fold<T><<<static_cast<unsigned>(tile.rows), kThreads, 0, stream>>>(tile, statistics);
  });
  check_cuda(cudaGetLastError(), "the launch of the kernel that folds logits");
}

void launch_differentiate_logits(const CrossEntropyLogitTile& tile, const float* normalizers, const float* outer,
                                 cudaStream_t stream) {
  if (tile.rows == 0) return;
  constexpr int64_t kOfBlock = int64_t{kThreads} * kEach;
  const dim3 blocks(static_cast<unsigned>(tile.rows), static_cast<unsigned>((tile.columns + kOfBlock - 1) / kOfBlock));
  with_type(tile.type,
            [&]<typename T>(T) { differentiate<T><<<blocks, kThreads, 0, stream>>>(tile, normalizers, outer); });
  check_cuda(cudaGetLastError(), "the launch of the kernel of logits' gradients");
}

}  // namespace memtune::device
