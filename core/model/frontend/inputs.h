// The batch of a trial: from a safetensors file, or synthetic from specs and a seed.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/model/frontend/loss.h"
#include "core/model/program/program.h"
#include "core/plan/request/trial_request.h"

namespace memtune::frontend {

struct TrainingBatch {
  std::vector<at::Tensor> tensors;     // in the order of the program's inputs, then of the loss; on the device
  std::vector<plan::InputSpec> specs;  // specs of `tensors`, resolved
  std::vector<std::string> guessed;    // specs that are guessed
  int64_t samples = 0;                 // first dimension of the first input; for dpo and reward half of it, the pairs
  int64_t tokens = 0;                  // samples * sequence when an integer input is [batch, sequence], else 0
};

// Resolves all specs and makes the batch. Checks everything that needs no run of the model: names of inputs, missing
// inputs, dtypes, sizes. Applies `--batch` and `--seq` (training.batch, training.sequence).
//
// An input without a spec is made as the model's file describes it. Throws UsageError for sizes that an exported
// program does not support. Without any spec or file, other shapes are guessed from the model (the layer that reads the
// input, forward's defaults). If that fails, throws UsageError with an --input line to use.
//
// Synthetic float32 inputs get the dtype of the parameters if the model is cast. A "target" without a description is
// made from the model's output (classes: size of dimension 1, or of the only dimension). This runs the model once
// without gradients and undoes side effects on buffers and generators.
TrainingBatch make_batch(const plan::TrialRequest& request, LossKind loss, const program::Program& model,
                         c10::Device device);

}  // namespace memtune::frontend
