// Small random models for the engines: TorchScript source made of what engines in the field got wrong, views, in-place
// writes, private values, ties, branches, lists. Same seed, same program. Some programs are wrong on purpose (they
// write over what autograd saved): the engines have to refuse those as autograd does.
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
  // Bodies of Block.forward(self, x, s, ids) and, last, of Model.forward(self, x, y, ids). A block answers with (x, s),
  // the model with two losses, the second of which is part of the first.
  std::vector<Lines> functions;
  std::vector<int> blocks;       // which body each block has
  bool input_needs_grad = true;  // x; y never does
  bool tied_blocks = false;      // all blocks share one weight
  bool autocast = false;         // the forward runs under it
  std::string text() const;      // for people
};

RandomProgram random_program(uint64_t seed);

struct RandomModel {
  torch::jit::Module module;
  std::vector<at::Tensor> inputs;  // x, y, ids
};
// Throws c10::Error when the source is no TorchScript.
RandomModel build(const RandomProgram& program, c10::Device device);

// A smaller program for which `fails` still holds: statements are dropped, and values replaced by what they were made
// from. Candidates may be no valid programs; `fails` says no to those.
RandomProgram reduce(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

}  // namespace memtune::tests
