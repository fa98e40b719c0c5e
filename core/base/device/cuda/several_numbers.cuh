// Vectorized access to eight numbers per thread: one load or store if aligned; arithmetic in float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace memtune::device {

constexpr int kEach = 8;

__device__ inline float to_float(float number) { return number; }
__device__ inline float to_float(__half number) { return __half2float(number); }
__device__ inline float to_float(__nv_bfloat16 number) { return __bfloat162float(number); }
__device__ inline float to_float(uint8_t number) { return number; }

template <typename T>
__device__ T rounded(float number);
template <>
__device__ inline float rounded<float>(float number) {
  return number;
}
template <>
__device__ inline __half rounded<__half>(float number) {
  return __float2half_rn(number);
}
template <>
__device__ inline __nv_bfloat16 rounded<__nv_bfloat16>(float number) {
  return __float2bfloat16_rn(number);
}

template <typename T>
struct alignas(sizeof(T) * kEach > 16 ? 16 : sizeof(T) * kEach) Several {
  T numbers[kEach];
};

template <typename T>
__device__ inline bool is_aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % alignof(Several<T>) == 0;
}

// Reads eight numbers, of which `left` exist; the others are 0.
template <typename T>
__device__ inline Several<T> read(const T* from, int64_t left) {
  if (left >= kEach && is_aligned(from)) return *reinterpret_cast<const Several<T>*>(from);
  Several<T> several = {};
  for (int i = 0; i < kEach; ++i)
    if (i < left) several.numbers[i] = from[i];
  return several;
}

template <typename T>
__device__ inline void write(T* to, const Several<T>& several, int64_t left) {
  if (left >= kEach && is_aligned(to)) {
    *reinterpret_cast<Several<T>*>(to) = several;
    return;
  }
  for (int i = 0; i < kEach; ++i)
    if (i < left) to[i] = several.numbers[i];
}

}  // namespace memtune::device
