// The inputs that a request describes before the model is loaded: specs of the command line or of a profile, and the
// tensors of a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/model/frontend/loss.h"
#include "core/model/program/program.h"
#include "core/plan/request/trial_request.h"

namespace memtune::frontend {

inline constexpr char kPadding[] = "attention_mask";

// All inputs that the request describes, in order. A spec without a name gets the name at its position.
struct RequestedInputSpecsAndTensors {
  std::vector<plan::InputSpec> specs;      // including those of the file's tensors
  std::map<std::string, at::Tensor> file;  // by name
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& spec : specs) result.push_back(spec.name);
    return result;
  }
  const plan::InputSpec* find(const std::string& name) const {
    for (const auto& spec : specs)
      if (spec.name == name) return &spec;
    return nullptr;
  }
};

// `positions`: names for specs without one, in order. Throws UsageError for too many specs or an input described twice.
RequestedInputSpecsAndTensors describe(const plan::ModelAndInputSource& model,
                                       const std::vector<std::string>& positions);

plan::InputSpec spec_of(const std::string& name, const at::Tensor& tensor);
bool is_integer(const std::string& dtype);
bool contains(const std::vector<std::string>& names, const std::string& name);

// Sequence length of a batch of tokens if the request determines it without the model, else 0. For a packed row it is
// the length of the longest document.
int64_t known_sequence(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training);

// True if rows of a config.json model have padding: synthetic, or from the attention_mask in the inputs' file.
bool has_padding(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training);

// Returns the input that the loss compares with:
//   1. `target` if given: an input of the model, a spec or a tensor of the file; else throws UsageError.
//   2. For dpo, kto, grpo and reward: the model's first integer input.
//   3. "labels" or "target" if there is an input of that name.
//   4. For losses over tokens: "labels" (made from the tokens) if rows have padding, else the first integer input.
//   5. For cross_entropy and mse: "target", made from the model's output.
// Returns "" for LossKind::returned, embedding and none.
std::string choose_target(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training, LossKind loss,
                          const std::vector<program::ModelOrLossInputDeclaration>& inputs);

}  // namespace memtune::frontend
