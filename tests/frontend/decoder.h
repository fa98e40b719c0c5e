// A small Llama that is written through the emitter, op by op: what the front ends' suites compare files with.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "core/model/program/program.h"

namespace memtune::tests {

struct DecoderSizes {
  int64_t vocabulary = 0, hidden = 0, blocks = 0;
  int64_t heads = 0, kv_heads = 0;  // hidden / heads is the width of a head, even for the rotary embedding
  int64_t mlp = 0, sequence = 0;
};

// Floating weights of `dtype` on `device`: normal(0, 0.02) drawn from `seed`, norms 1. The rotary tables are buffers.
program::Program build_decoder(const DecoderSizes& sizes, at::ScalarType dtype, c10::Device device, int64_t seed);

}  // namespace memtune::tests
