// The flags for several ranks that train one model together.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/sweep/loop/sweep.h"

namespace memtune::cli {

struct RankFlags {
  std::string ranks, reshard = "always", shard_dtype, reduce_dtype, timeout = "2m";
  bool shard_offload = false;

  void add_to(CLI::App& command);
  // Sets the number of ranks: --ranks or the launcher's. `--ranks 1` runs alone even if launched. Throws UsageError.
  void read(plan::TrainingSettings& to) const;
};

// Throws UsageError if several ranks would share a device.
void check_device_of_ranks(const plan::TrainingSettings& training);
// Throws UsageError for sweep settings that do not work with several ranks.
void check_ranks(const sweep::EngineSweepSettings& settings, bool finds_batch);

}  // namespace memtune::cli
