// Adapts the constants of a recorded graph to the device that the model runs on.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace memtune::frontend {

// A trace contains its device: moves tensors and devices to `device`. Single numbers in arithmetic stay on the CPU as
// wrapped numbers. Kernels take these as arguments, while every thread would read one on the device. They do not
// promote other operands either.
c10::IValue on_device(const torch::jit::Value* constant, const c10::IValue& value, c10::Device device);

}  // namespace memtune::frontend
