// Constants that a graph was recorded with, where the model runs now.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace memtune::frontend {

// A trace bakes in where it ran: tensors and devices go to `device`. Single numbers in arithmetic stay on the CPU, as
// the Python numbers that they were: a kernel takes them as arguments, where one on the device is read by each thread,
// and they widen nothing.
c10::IValue on_device(const torch::jit::Value* constant, const c10::IValue& value, c10::Device device);

}  // namespace memtune::frontend
