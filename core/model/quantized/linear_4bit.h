// memtune::linear_4bit, a linear layer with an NF4 weight: (input, weight, largest, largest_of_largest, mean, rows,
// columns, bias). Computes in the input's dtype, or in autocast's dtype if autocast is on. Only input and bias get
// gradients, because a quantized weight is not trained. Its autograd node saves no tensors except those of the weight.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace memtune::quantized {

inline constexpr char kLinear4Bit[] = "memtune::linear_4bit";

// Returns the operator. A program that calls this links the operator's registration.
c10::OperatorHandle linear_4bit();

}  // namespace memtune::quantized
