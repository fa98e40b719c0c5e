// TorchScript's un-inlined graph to a Program.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "core/program/program.h"

namespace memtune::frontend {

// Lowers module.forward. Arguments of forward that take a tensor are the program's inputs, others keep their defaults.
// Constants and devices that a trace baked in are moved to `device`. UsageError names an op that memtune cannot run,
// with its source line.
program::Program lower_module(const torch::jit::Module& module, c10::Device device);

}  // namespace memtune::frontend
