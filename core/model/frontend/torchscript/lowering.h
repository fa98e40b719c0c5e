// Lowers TorchScript's un-inlined graph to a Program.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "core/model/program/program.h"

namespace memtune::frontend {

// Lowers module.forward. Its tensor arguments become the program's inputs. Others get their value from `arguments`
// ("steps=3") or their default. Constants and devices in a trace are moved to `device`. Full slices (x[:]) are skipped,
// as in Python's indexing, because each would cost a copy in backward. Throws UsageError with the op and its source
// line for an op that memtune cannot run.
program::Program lower_module(const torch::jit::Module& module, c10::Device device,
                              const std::vector<std::string>& arguments = {});

}  // namespace memtune::frontend
