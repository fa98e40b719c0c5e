// TorchScript's un-inlined graph to a Program.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "core/program/program.h"

namespace memtune::frontend {

// Lowers module.forward. Arguments of forward that take a tensor are the program's inputs, others have the value that
// `arguments` ("steps=3") or their default says. Constants and devices that a trace baked in are moved to `device`.
// Slices of everything are left out, as Python's indexing does: in backward each would cost a copy. UsageError names an
// op that memtune cannot run, with its source line.
program::Program lower_module(const torch::jit::Module& module, c10::Device device,
                              const std::vector<std::string>& arguments = {});

}  // namespace memtune::frontend
