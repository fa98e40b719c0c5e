// 8-bit weights ("LLM.int8()", arXiv:2208.07339). Stores the absmax of each row, and each element rounded to a multiple
// of absmax / 127. Bytes and values match bitsandbytes' Int8Params, which rounds to float16 first.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace memtune::quantized {

struct Int8Weight {
  at::Tensor numbers;  // int8, shape of the matrix
  at::Tensor largest;  // float32 absmax, one per row
};

// Packs a float32, float16 or bfloat16 matrix on its device. Needs a few MiB of temporary memory there.
Int8Weight pack_int8(const at::Tensor& matrix);

at::Tensor unpack_int8(const Int8Weight& packed, at::ScalarType type);

// Input columns with a magnitude of at least this are not quantized; transformers' default llm_int8_threshold.
inline constexpr double kOutlier = 6.0;

struct Int8MatmulOutputAndOutlierColumns {
  at::Tensor output;    // [rows, weight's rows], dtype of the inputs
  at::Tensor outliers;  // input columns that were not quantized; empty: none
};

// Returns inputs @ weight^T + bias, as bitsandbytes computes it on devices with int8 units: the rows of `inputs`, a
// matrix, are quantized to 8 bits too. Synchronizes with the device to get the number of outlier columns.
Int8MatmulOutputAndOutlierColumns multiply_int8(const at::Tensor& inputs, const Int8Weight& weight,
                                                const std::optional<at::Tensor>& bias);

}  // namespace memtune::quantized
