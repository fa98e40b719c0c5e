// Small random models for the engines, as TorchScript source with features that engines often get wrong: views,
// in-place writes, private tensors, ties, branches, lists. A seed always gives the same program. Some programs are
// wrong on purpose (they overwrite a saved tensor): engines must reject them as autograd does.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace memtune::tests {

constexpr int64_t kRows = 4, kWidth = 8;  // of the tensors between blocks

struct RandomProgram {
  using Lines = std::vector<std::string>;

  uint64_t seed = 0;
  // Bodies of Block.forward(self, x, s, ids) and, last, of Model.forward(self, x, y, ids). A block returns (x, s). The
  // model returns two losses, the second of which is part of the first.
  std::vector<Lines> functions;
  std::vector<int> blocks;       // index of each block's body
  bool input_needs_grad = true;  // x; y never does
  bool tied_blocks = false;      // all blocks share one weight
  bool autocast = false;         // runs the forward under autocast
  std::string text() const;      // for people
};

RandomProgram random_program(uint64_t seed);

struct RandomModel {
  torch::jit::Module module;
  std::vector<at::Tensor> inputs;  // x, y, ids
};
// Throws c10::Error if the source is not valid TorchScript.
RandomModel build(const RandomProgram& program, c10::Device device);

// Returns a smaller program for which `fails` still holds. It drops statements and replaces values by their inputs.
// Candidates may be invalid programs, for which `fails` must return false.
RandomProgram reduce(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

}  // namespace memtune::tests
