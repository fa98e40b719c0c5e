// memtune::linear_8bit, a linear layer with an 8-bit weight: (input, weight, largest, bias). Computes like bitsandbytes
// in training: a CPU dequantizes the weight, other devices quantize the input too, except outlier columns. Only input
// and bias get gradients, because a quantized weight is not trained; the input's uses the dequantized weight. Its
// autograd node saves the input and the outlier columns, as bitsandbytes does. Its backward reads neither.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace memtune::quantized {

inline constexpr char kLinear8Bit[] = "memtune::linear_8bit";

// Returns the operator. A program that calls this links the operator's registration.
c10::OperatorHandle linear_8bit();

}  // namespace memtune::quantized
