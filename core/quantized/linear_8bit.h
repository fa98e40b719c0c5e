// memtune::linear_8bit, a linear layer whose weight is held in eight bits: (input, weight, largest, bias). As
// bitsandbytes trains it: on a CPU with the weight made whole, elsewhere with the input rounded to eight bits too, but
// for columns of outliers. The input's gradient, through the weight made whole, is its only one, and the bias's: a
// quantized weight is not trained. Its node saves the input, and the columns of outliers, because that of bitsandbytes
// keeps them; its backward asks for neither.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace memtune::quantized {

inline constexpr char kLinear8Bit[] = "memtune::linear_8bit";

// The operator of that name; what is linked with a call of this has it.
c10::OperatorHandle linear_8bit();

}  // namespace memtune::quantized
