// Kernels of the CUDA module, for operations that need many passes and temporaries with LibTorch's operators. Pointers
// are to device memory. Calls enqueue on LibTorch's current stream of the device and return. They throw DeviceError if
// the launch fails.
#pragma once

#include <cstdint>

namespace memtune::device {

enum class KernelDtype { float32, float16, bfloat16 };

// NF4 tensor: 4-bit numbers, two per byte, the first in the high bits. Each block of 64 has a largest magnitude
// (absmax). It is stored as float32, or quantized to a byte: map[byte] * largest of its block of 256 + mean.
struct Nf4WeightPointers {
  const uint8_t* bytes = nullptr;
  const float* largest = nullptr;  // absmax per block; null: quantized, in the next four
  const uint8_t* largest_in_bytes = nullptr;
  const float* largest_of_largest = nullptr;
  const float* mean = nullptr;
  const float* map = nullptr;  // [256]
  float code[16] = {};         // value of each 4-bit code, relative to the largest magnitude
  int64_t count = 0;
};

// An 8-bit moment of one parameter: a byte per number, and the largest magnitude of each block of 256.
struct QuantizedMomentPointers {
  uint8_t* bytes = nullptr;
  float* largest = nullptr;
  const float* map = nullptr;  // [256], ascending: value of each byte
};

// values = values * keep + rate * first / (sqrt(second) * root + epsilon), with the updated moments. Each block is
// read, updated in float32 and rounded in one pass.
struct QuantizedAdamWArguments {
  void* values = nullptr;
  const void* gradient = nullptr;  // same type as `values`
  KernelDtype type = KernelDtype::float32;
  int64_t count = 0;
  QuantizedMomentPointers first, second;
  float beta1 = 0, weight1 = 0;  // first = first * beta1 + gradient * weight1
  float beta2 = 0, weight2 = 0;  // second = second * beta2 + gradient * gradient * weight2
  float keep = 0, rate = 0, root = 0, epsilon = 0;
};

// Logits of some tokens for some words of the vocabulary, as a linear layer computed them. A model scales them to
// logit * scale, then softcap * tanh(. / softcap) unless softcap is 0.
struct CrossEntropyLogitTile {
  void* logits = nullptr;  // [rows, columns]
  KernelDtype type = KernelDtype::float32;
  int64_t rows = 0, columns = 0, stride = 0;  // stride: numbers from a row to the next
  const int64_t* targets = nullptr;           // [rows], in the whole vocabulary
  int64_t first_column = 0;                   // in the whole vocabulary
  float scale = 1, softcap = 0;
};

// Of each row, over the tiles so far.
struct OnlineCrossEntropyStatePointers {
  float* largest = nullptr;    // scaled logit
  float* sum = nullptr;        // of exp(scaled logit - largest)
  float* at_target = nullptr;  // scaled logit of the target
};

struct CudaKernelTable {
  // `to` has space for from.count numbers.
  void (*unpack_nf4)(const Nf4WeightPointers& from, void* to, KernelDtype type, int device);
  void (*step_adamw)(const QuantizedAdamWArguments& step, int device);
  void (*fold_logits)(const CrossEntropyLogitTile& tile, const OnlineCrossEntropyStatePointers& statistics, int device);
  // Overwrites the logits with the gradient of outer[row] * (log probability of the row's target). normalizers[row]:
  // the logarithm of the sum of the exponentials of all scaled logits.
  void (*differentiate_logits)(const CrossEntropyLogitTile& tile, const float* normalizers, const float* outer,
                               int device);
  // Adds the hash of `size` bytes to `to` [2]: core/base/device/device_memory_hash_value.h. Zeros fill the last word.
  void (*hash_memory)(const void* from, int64_t size, uint64_t* to, int device);
};

// Returns null if the module was built without nvcc. Throws like cuda_symbol().
const CudaKernelTable* cuda_kernels();

}  // namespace memtune::device
