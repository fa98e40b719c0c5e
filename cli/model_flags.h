// The flags that sweep and profile share: the model, its inputs and how it is trained.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/rank_flags.h"
#include "cli/training_flags.h"
#include "core/sweep/sweep.h"

namespace memtune::cli {

struct ModelFlags {
  std::string model, inputs_file, attention, padding = "0";
  std::string steps = "5", warmup = "2", device, blocks, memory_cap, timeout = "600", out;
  std::string scratch, host_budget, disk_budget;
  bool scratch_in_memory = false;
  bool trust_model = false;
  bool pack = false;
  std::vector<std::string> inputs, libraries, batches, sequences;
  TrainingFlags training;
  RankFlags ranks;  // whose add_to() not every command calls
  ConsoleFlags console;

  void add_to(CLI::App& command, const std::string& default_out);

  // `loop` and everything but strategies. Its notes say what was chosen without being asked for. Throws UsageError.
  sweep::SweepSettings settings(const sweep::LoopSettings& loop = {}) const;
};

// `device` as given, checked; "": cuda where a driver and the CUDA half of the build are there, else cpu.
std::string choose_device(const std::string& device, std::vector<std::string>& notes);

// Of "models" or "sweeps".
std::vector<std::string> profile_names(std::string_view kind);

// Those that shells offer: "checkpoint:every=n" as "checkpoint:every=2".
std::vector<std::string> strategy_words();

inline const std::vector<std::string> kDevices = {"cpu", "cuda"};

}  // namespace memtune::cli
