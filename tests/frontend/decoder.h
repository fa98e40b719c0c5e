// A small Llama that the emitter writes op by op. The suites of the front ends compare model files with it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "core/model/program/program.h"

namespace memtune::tests {

struct DecoderSizes {
  int64_t vocabulary = 0, hidden = 0, blocks = 0;
  int64_t heads = 0, kv_heads = 0;  // the head width hidden / heads must be even for the rotary embedding
  int64_t mlp = 0, sequence = 0;
};

// Weights have `dtype` and lie on `device`: normal(0, 0.02) drawn from `seed`, norm weights are 1. The rotary tables
// are buffers.
program::Program build_decoder(const DecoderSizes& sizes, at::ScalarType dtype, c10::Device device, int64_t seed);

}  // namespace memtune::tests
