// The decoder of a model profile, with the tree and the class names of a Llama in Python.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "core/config/decoder_profile.h"
#include "core/program/program.h"

namespace memtune::frontend {

// Floating weights of `dtype` on `device`: normal(0, 0.02) drawn from `seed`, norms 1. The rotary tables are buffers
// that reach max(profile.sequence, sequence) positions. The default generators are left alone.
program::Program build_decoder(const config::DecoderProfile& profile, at::ScalarType dtype, c10::Device device,
                               int64_t seed, int64_t sequence = 0);

}  // namespace memtune::frontend
