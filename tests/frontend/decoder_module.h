// The decoder of the tests as a TorchScript module, as a user's file would hold it. TorchScript itself can run it too.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "core/model/program/state.h"
#include "tests/frontend/decoder.h"

namespace memtune::tests {

enum class Form {
  scripted,  // numbers are attributes
  traced,    // numbers are literals in the code, and only tensors are attributes
};

// The module has copies of the weights and buffers. With `loss`, forward returns the next-token loss instead of logits.
torch::jit::Module decoder_module(const DecoderSizes& sizes, const program::ModelParametersAndBuffers& state, Form form,
                                  bool loss = false);

}  // namespace memtune::tests
