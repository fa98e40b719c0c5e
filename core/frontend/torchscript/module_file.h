// A TorchScript file as a module that can be trained.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "core/frontend/front_end.h"

namespace memtune::frontend {

// In training mode, on the device, floating parameters and buffers cast as the source says. Integer buffers keep their
// type; tied parameters stay tied. UsageError: a file that LibTorch cannot load; no forward method; a frozen module (no
// parameters); no floating or complex parameter that requires grad.
torch::jit::Module load_module(const Source& source);

bool was_traced(const torch::jit::Module& module);

}  // namespace memtune::frontend
