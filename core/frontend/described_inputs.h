// What a request says of the inputs before the model has seen any: specs that were typed or stand in a profile, and the
// tensors of a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/config/trial_request.h"
#include "core/frontend/loss.h"
#include "core/program/program.h"

namespace memtune::frontend {

inline constexpr char kPadding[] = "attention_mask";

// Everything that the request says about inputs, in order, with names: a spec without one goes by its position.
struct Described {
  std::vector<config::InputSpec> specs;    // of the file's tensors as well
  std::map<std::string, at::Tensor> file;  // by name
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& spec : specs) result.push_back(spec.name);
    return result;
  }
  const config::InputSpec* find(const std::string& name) const {
    for (const auto& spec : specs)
      if (spec.name == name) return &spec;
    return nullptr;
  }
};

// `positions`: the names that specs without one go by. UsageError for one too many, or one described twice.
Described describe(const config::TrialRequest& request, const std::vector<std::string>& positions);

config::InputSpec spec_of(const std::string& name, const at::Tensor& tensor);
bool is_integer(const std::string& dtype);
bool contains(const std::vector<std::string>& names, const std::string& name);

// Of a batch of tokens, as far as the request tells without the model: its sequence, of a packed row its longest
// document; 0 where it does not.
int64_t known_sequence(const config::TrialRequest& request);

// Whether rows of a model of a config.json have padding: made up, or by the attention_mask of the inputs' file.
bool has_padding(const config::TrialRequest& request);

// Which input the loss compares with: `target` when given (an input of the model, a spec, or a tensor of the file, else
// UsageError), else labels or target when such a name is there, else for losses over tokens the first integer input
// (where rows have padding "labels", made of it), for cross_entropy and mse "target" (made up from the model's answer).
// "" for returned.
std::string choose_target(const config::TrialRequest& request, Loss loss, const std::vector<program::Input>& inputs);

}  // namespace memtune::frontend
