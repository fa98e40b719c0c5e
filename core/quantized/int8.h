// Weights in eight bits: of each row the largest magnitude, of each number the nearest of 127 parts of it and its sign
// ("LLM.int8()", arXiv:2208.07339). Bytes and values are those of bitsandbytes' Int8Params, which rounds to float16
// first.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace memtune::quantized {

struct Int8 {
  at::Tensor numbers;  // int8, of the matrix's shape
  at::Tensor largest;  // float32, one a row
};

// Of a matrix in float32, float16 or bfloat16, on its device; needs a few MiB besides there.
Int8 pack_int8(const at::Tensor& matrix);

at::Tensor unpack_int8(const Int8& packed, at::ScalarType type);

// Magnitudes from which on a column of inputs is not rounded, as transformers sets llm_int8_threshold.
inline constexpr double kOutlier = 6.0;

struct Product {
  at::Tensor output;    // [rows, weight's rows], of the inputs' type
  at::Tensor outliers;  // the inputs' columns that were multiplied as they are; none: no number
};

// inputs @ weight^T + bias, as bitsandbytes has it where there are units for int8: the inputs' rows are rounded to
// eight bits as well. `inputs`: a matrix. Waits for the device, which says how many columns have outliers.
Product multiply_int8(const at::Tensor& inputs, const Int8& weight, const std::optional<at::Tensor>& bias);

}  // namespace memtune::quantized
