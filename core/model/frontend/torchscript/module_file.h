// Loads a TorchScript file as a trainable module.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "core/model/frontend/front_end.h"

namespace memtune::frontend {

// Returns the module on the device, in the mode it was saved in, with floating parameters and buffers cast as the
// source says. Integer buffers keep their type; tied parameters stay tied. Throws UsageError if LibTorch cannot load
// the file, or if it has no forward method or no parameters (a frozen module). Also if no floating or complex parameter
// requires grad.
torch::jit::Module load_module(const ModelSourceAndLoweringOptions& source);

// A note on modules in evaluation mode, for a scripted module; "" if all are in training mode.
std::string note_on_evaluation(const torch::jit::Module& module);

bool was_traced(const torch::jit::Module& module);

}  // namespace memtune::frontend
