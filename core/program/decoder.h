// The decoder of a model profile as a TorchScript module, with the tree and the class names of a scripted Python model.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "core/config/decoder_profile.h"

namespace memtune::program {

// Floating weights of `dtype` on `device`: normal(0, 0.02) drawn from `seed`, norms 1. The rotary tables are buffers
// that reach max(profile.sequence, sequence) positions. The default generators are left alone.
torch::jit::Module build_decoder(const config::DecoderProfile& profile, at::ScalarType dtype, c10::Device device,
                                 int64_t seed, int64_t sequence = 0);

}  // namespace memtune::program
