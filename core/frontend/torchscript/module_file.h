// A TorchScript file as a module that can be trained.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "core/frontend/front_end.h"

namespace memtune::frontend {

// On the device, in the mode that it was saved in, floating parameters and buffers cast as the source says. Integer
// buffers keep their type; tied parameters stay tied. UsageError: a file that LibTorch cannot load; no forward method;
// a frozen module (no parameters); no floating or complex parameter that requires grad; a library that cannot be
// loaded.
torch::jit::Module load_module(const Source& source);

// Of a scripted module, whose mode decides what it does; "" when all of it trains.
std::string note_on_evaluation(const torch::jit::Module& module);

bool was_traced(const torch::jit::Module& module);

}  // namespace memtune::frontend
