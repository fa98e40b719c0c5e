// The decoder of the tests as TorchScript: what a person's file would hold, and what TorchScript itself computes of it.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "core/model/program/state.h"
#include "tests/frontend/decoder.h"

namespace memtune::tests {

enum class Form {
  scripted,  // numbers are attributes
  traced,    // numbers are written out, and nothing but tensors is kept
};

// With copies of the weights and buffers. `loss`: forward answers with the next-token loss, not with logits.
torch::jit::Module decoder_module(const DecoderSizes& sizes, const program::ModelState& state, Form form,
                                  bool loss = false);

}  // namespace memtune::tests
