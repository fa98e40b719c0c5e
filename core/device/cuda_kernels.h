// Kernels of the CUDA module, for what LibTorch's operators need many passes and temporaries for. All pointers are of
// the device's memory. A call is queued on LibTorch's current stream of that device and returns; DeviceError when it
// cannot be.
#pragma once

#include <cstdint>

namespace memtune::device {

enum class Number { float32, float16, bfloat16 };

// Numbers of 4 bits, two a byte, the first in its high bits; of each block of 64 the largest magnitude, as float32 or,
// in their turn, as bytes: `map` of a byte, times the largest of its block of 256, plus `mean`.
struct Nf4Numbers {
  const uint8_t* bytes = nullptr;
  const float* largest = nullptr;  // or, where this is null:
  const uint8_t* largest_in_bytes = nullptr;
  const float* largest_of_largest = nullptr;
  const float* mean = nullptr;
  const float* map = nullptr;  // [256]
  float code[16] = {};         // what four bits stand for, as a part of the largest magnitude
  int64_t count = 0;
};

// Moments of one parameter, a byte a number, and of each block of 256 the largest magnitude.
struct BlockMoment {
  uint8_t* bytes = nullptr;
  float* largest = nullptr;
  const float* map = nullptr;  // [256], ascending: what a byte stands for
};

// values = values * keep + rate * first / (sqrt(second) * root + epsilon), moments updated before that. Each block is
// read, updated in float32 and rounded again in one pass.
struct BlockAdamWStep {
  void* values = nullptr;
  const void* gradient = nullptr;  // of the same type
  Number type = Number::float32;
  int64_t count = 0;
  BlockMoment first, second;
  float beta1 = 0, weight1 = 0;  // first = first * beta1 + gradient * weight1
  float beta2 = 0, weight2 = 0;  // second = second * beta2 + gradient * gradient * weight2
  float keep = 0, rate = 0, root = 0, epsilon = 0;
};

struct CudaKernels {
  // `to` holds from.count numbers.
  void (*unpack_nf4)(const Nf4Numbers& from, void* to, Number type, int device);
  void (*step_adamw)(const BlockAdamWStep& step, int device);
};

// Null where the module was built without nvcc. Throws as cuda_symbol does.
const CudaKernels* cuda_kernels();

}  // namespace memtune::device
