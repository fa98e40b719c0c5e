// memtune::linear_4bit, a linear layer whose weight is held in NF4: (input, weight, largest, largest_of_largest, mean,
// rows, columns, bias). It computes in the input's type, or in autocast's where that is on. The input's gradient is its
// only one, and the bias's: a quantized weight is not trained. Its node keeps no tensor but those of the weight.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace memtune::quantized {

inline constexpr char kLinear4Bit[] = "memtune::linear_4bit";

// The operator of that name; what is linked with a call of this has it.
c10::OperatorHandle linear_4bit();

}  // namespace memtune::quantized
