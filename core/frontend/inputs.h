// The batch a trial trains on: from a safetensors file, or made up from specs and a seed.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/config/trial_request.h"
#include "core/frontend/loss.h"
#include "core/program/program.h"

namespace memtune::frontend {

struct Batch {
  std::vector<at::Tensor> tensors;       // in the order of the program's inputs, loss included; on the device
  std::vector<config::InputSpec> specs;  // of the same, as resolved
  std::vector<std::string> guessed;      // specs that nobody described and the file does not tell
  int64_t samples = 0;                   // first dimension of the first input
  int64_t tokens = 0;                    // samples * sequence when an integer input is [batch, sequence], else 0
};

// Fills in what specs leave open and checks everything that can be checked without running the model: wrong names (with
// the valid ones), a missing input, wrong dtype words, `--batch`/`--seq` (training.batch, training.sequence) applied.
// An input that nobody describes and the model's file does is made up as there; sizes that the file's program is not
// right for are refused. When no spec or file is given, other shapes are guessed where the model tells (an embedding or
// a convolution right behind the input; forward's defaults); otherwise UsageError that shows an --input line to write.
// Floating inputs that are made up take the dtype of the model's parameters when the spec's dtype is float32 and the
// model is cast. A "target" that nothing describes is made up from the model's answer (classes = last dimension) by one
// run without gradients whose side effects on buffers and generators are undone.
Batch make_batch(const config::TrialRequest& request, Loss loss, const program::Program& model, c10::Device device);

}  // namespace memtune::frontend
