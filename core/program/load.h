// A model out of a file or a profile, ready to train on a device.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "core/config/trial_request.h"

namespace memtune::program {

struct LoadedModel {
  torch::jit::Module module;
  std::string kind;                // "scripted" | "traced" | "profile"
  std::vector<std::string> notes;  // e.g. "traced: dropout and train mode are fixed as they were recorded"
};

// Loads source.path (TorchScript, scripted or traced) or builds source.profile, in training mode, on `device`, floating
// parameters and buffers cast to `dtype` (canonical name; "": as stored). Weights of a profile are drawn from `seed`.
// Integer buffers keep their type; tied parameters stay tied. `sequence`: the longest that a profile's model will see;
// 0: as the profile says.
//
// UsageError, one line each: no such file; not a zip archive; a zip without TorchScript code (a state dict, a
// torch.export archive, something else: each by name, with what to do instead); a damaged or cut file; a frozen module
// (no parameters); a model without a floating parameter that requires grad.
LoadedModel load_model(const config::ModelSource& source, const std::string& dtype, c10::Device device, int64_t seed,
                       int64_t sequence = 0);

// All parameters once (tied ones once), in a stable order, with their names.
std::vector<std::pair<std::string, at::Tensor>> unique_parameters(const torch::jit::Module& module);

}  // namespace memtune::program
