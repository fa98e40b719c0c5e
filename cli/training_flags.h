// The flags for training: loss, optimizer, dtypes, adapter.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/plan/request/trial_request.h"

namespace memtune::cli {

struct TrainingFlags {
  std::string loss, loss_impl = "plain", output, target;
  std::string optimizer = "adamw", learning_rate = "1e-4", accumulate = "1", max_grad_norm = "0";
  std::string dtype, autocast, load_in, lora, seed = "0";
  bool optimizer_in_backward = false;

  void add_to(CLI::App& command);
  void read(plan::TrainingSettings& to) const;  // UsageError
};

}  // namespace memtune::cli
