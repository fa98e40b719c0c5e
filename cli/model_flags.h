// The flags that sweep and profile share: model, inputs and training.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/rank_flags.h"
#include "cli/training_flags.h"
#include "core/sweep/loop/sweep.h"

namespace memtune::cli {

struct ModelFlags {
  std::string model, inputs_file, attention, padding = "0";
  std::string steps = "5", warmup = "2", device, blocks, memory_cap, timeout = "600", out;
  std::string scratch, host_budget, disk_budget;
  bool scratch_in_memory = false;
  bool trust_model = false;
  bool text_only = false;
  bool pack = false;
  bool show = false;  // what a training command prints; see add_show()
  std::vector<std::string> inputs, libraries, batches, sequences;
  TrainingFlags training;
  RankFlags ranks;  // not every command calls its add_to()
  ConsoleFlags console;
  const CLI::Option* out_option = nullptr;

  void add_to(CLI::App& command, const std::string& default_out);

  bool has_out() const { return out_option != nullptr && out_option->count() > 0; }

  // Combines `loop` with all flags but strategies. Its notes name the defaults that were chosen. Throws UsageError.
  sweep::EngineSweepSettings settings(const sweep::CommonSweepSettings& loop = {}) const;
};

// Checks `device`. "" becomes cuda if a driver and the CUDA part of the build exist, otherwise cpu.
std::string choose_device(const std::string& device, std::vector<std::string>& notes);

// Names of profiles; `kind` is "models" or "sweeps".
std::vector<std::string> profile_names(std::string_view kind);

// Strategies as shells suggest them: "checkpoint:every=n" becomes "checkpoint:every=2".
std::vector<std::string> strategy_words();

inline const std::vector<std::string> kDevices = {"cpu", "cuda"};

}  // namespace memtune::cli
