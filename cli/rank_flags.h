// The flags about several processes that train one model together.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/sweep/sweep.h"

namespace memtune::cli {

struct RankFlags {
  std::string ranks, reshard = "always", shard_dtype, reduce_dtype, timeout = "2m";
  bool shard_offload = false;

  void add_to(CLI::App& command);
  // As many as were asked for, or a launcher started; one that was asked for is alone, launched or not. UsageError.
  void read(config::TrainingSettings& to) const;
};

// UsageError where several ranks would share a device.
void check_device_of_ranks(const config::TrainingSettings& training);
// UsageError for what of a sweep does not go with several ranks.
void check_ranks(const sweep::SweepSettings& settings, bool finds_batch);

}  // namespace memtune::cli
