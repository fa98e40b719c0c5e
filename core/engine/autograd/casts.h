// Finds the casts that autocast puts in front of an op. Autograd then saves the cast copy, which is neither an input
// nor an output of the op.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace memtune::autograd {

// True if `saved` is the cast copy of a parameter. ops::AutocastState makes this copy once and all consumers share it.
bool is_cast_parameter(const at::Tensor& saved);

// Returns the index of the input that `saved` is a cast copy of, or a view of that copy. -1: none.
int find_cast_source(const at::Tensor& saved, const std::vector<at::Tensor>& inputs);

}  // namespace memtune::autograd
