// Hashes memory: every word of 8 bytes is mixed with its position, and the results are added. Sums of integers have the
// same bits in any order of threads.
#include "core/base/device/cuda/cuda_check.h"
#include "core/base/device/cuda/launches.h"
#include "core/base/device/device_memory_hash_value.h"

namespace memtune::device {
namespace {

constexpr int kThreads = 256, kWarp = 32, kBlocks = 2048;
constexpr int64_t kWord = sizeof(uint64_t);

template <bool Aligned>
__device__ uint64_t read_word(const uint8_t* bytes, int64_t size, int64_t index) {
  const int64_t begin = index * kWord;
  if (Aligned && begin + kWord <= size) return reinterpret_cast<const uint64_t*>(bytes)[index];
  uint64_t word = 0;
  for (int64_t i = 0; i < kWord && begin + i < size; ++i) word |= static_cast<uint64_t>(bytes[begin + i]) << (8 * i);
  return word;
}

__device__ uint64_t summed_over_warp(uint64_t sum) {
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;
}

template <bool Aligned>
__global__ void hash(const uint8_t* bytes, int64_t size, unsigned long long* to) {
  const int64_t words = (size + kWord - 1) / kWord;
  uint64_t first = 0, second = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < words; i += int64_t{gridDim.x} * kThreads) {
    const DeviceMemoryHashValue mixed = mixed_word(read_word<Aligned>(bytes, size, i), static_cast<uint64_t>(i));
    first += mixed.first;
    second += mixed.second;
  }
  first = summed_over_warp(first);
  second = summed_over_warp(second);
  if (threadIdx.x % kWarp != 0) return;
  atomicAdd(&to[0], static_cast<unsigned long long>(first));
  atomicAdd(&to[1], static_cast<unsigned long long>(second));
}

}  // namespace

void launch_hash_memory(const void* from, int64_t size, uint64_t* to, cudaStream_t stream) {
  if (size == 0) return;
  const auto* bytes = static_cast<const uint8_t*>(from);
  auto* sums = reinterpret_cast<unsigned long long*>(to);
  const int64_t words = (size + kWord - 1) / kWord, needed = (words + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(needed < kBlocks ? needed : kBlocks);
  if (reinterpret_cast<uintptr_t>(from) % kWord == 0)
    hash<true><<<blocks, kThreads, 0, stream>>>(bytes, size, sums);
  else
    hash<false><<<blocks, kThreads, 0, stream>>>(bytes, size, sums);
  check_cuda(cudaGetLastError(), "hash_memory");
}

}  // namespace memtune::device
