// Unpacks NF4, eight numbers of one quantization block per thread. Products and sums are rounded separately
// (-fmad=false), as LibTorch's operators do.
#include "core/base/device/cuda/cuda_check.h"
#include "core/base/device/cuda/launches.h"
#include "core/base/device/cuda/several_numbers.cuh"

namespace memtune::device {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlock = 64, kBlockOfLargest = 256;

__device__ float largest_of(const Nf4WeightPointers& from, int64_t block) {
  if (from.largest) return from.largest[block];
  return from.map[from.largest_in_bytes[block]] * from.largest_of_largest[block / kBlockOfLargest] + *from.mean;
}

struct alignas(4) Pairs {
  uint8_t bytes[kEach / 2];
};

__device__ Pairs read_pairs(const uint8_t* from, int64_t left) {
  if (left >= kEach && reinterpret_cast<uintptr_t>(from) % alignof(Pairs) == 0)
    return *reinterpret_cast<const Pairs*>(from);
  Pairs pairs = {};
  for (int i = 0; i < kEach / 2; ++i)
    if (2 * i < left) pairs.bytes[i] = from[i];
  return pairs;
}

template <typename T>
__global__ void unpack(const Nf4WeightPointers from, T* to) {
  __shared__ float code[16];
  if (threadIdx.x < 16) code[threadIdx.x] = from.code[threadIdx.x];
  __syncthreads();
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach, left = from.count - begin;
  if (left <= 0) return;
  const float largest = largest_of(from, begin / kBlock);
  const Pairs pairs = read_pairs(from.bytes + begin / 2, left);
  Several<T> several;
  for (int i = 0; i < kEach / 2; ++i) {
    const int pair = pairs.bytes[i];
    several.numbers[2 * i] = rounded<T>(code[pair >> 4] * largest);
    several.numbers[2 * i + 1] = rounded<T>(code[pair & 15] * largest);
  }
  write(to + begin, several, left);
}

template <typename T>
void launch(const Nf4WeightPointers& from, void* to, cudaStream_t stream) {
  constexpr int64_t kOfBlock = int64_t{kThreads} * kEach;
  if (from.count == 0) return;
  const auto blocks = static_cast<unsigned>((from.count + kOfBlock - 1) / kOfBlock);
  unpack<<<blocks, kThreads, 0, stream>>>(from, static_cast<T*>(to));
  check_cuda(cudaGetLastError(), "the launch of the kernel that unpacks NF4");
}

}  // namespace

void launch_unpack_nf4(const Nf4WeightPointers& from, void* to, KernelDtype type, cudaStream_t stream) {
  switch (type) {
    case KernelDtype::float32: return launch<float>(from, to, stream);
    case KernelDtype::float16: return launch<__half>(from, to, stream);
    case KernelDtype::bfloat16: return launch<__nv_bfloat16>(from, to, stream);
  }
}

}  // namespace memtune::device
