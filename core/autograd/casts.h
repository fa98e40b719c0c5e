// Casts that autocast puts in front of an op: autograd saves the copy, which is neither the op's input nor its output.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace memtune::autograd {

// Whether `saved` is the cast copy of a parameter, which autocast makes once and shares between all its users.
bool is_cast_parameter(const at::Tensor& saved);

// Which of an op's inputs `saved` is the cast copy of (or a view of that copy); -1: none.
int find_cast_source(const at::Tensor& saved, const std::vector<at::Tensor>& inputs);

}  // namespace memtune::autograd
