#include <algorithm>
#include <array>

#include "core/trainer/config.h"

namespace memtune::trainer {
namespace {

constexpr std::array kModes = {"disabled", "async", "async_with_pinned_mem"};  // in the order of config::kSaveModes

void save(const Saving& saving, Config& to) {
  to.keys.insert(to.keys.end(), {"[checkpoint]", "enable = true", "interval = " + std::to_string(saving.every_steps),
                                 std::string("async_mode = \"") + kModes.at(saving.mode) + "\""});
  const int64_t kept = saving.keep_last == 1 ? 2 : saving.keep_last;
  to.keys.push_back("keep_latest_k = " + std::to_string(kept));
  if (kept != saving.keep_last)
    to.notes.push_back("keep_latest_k: torchtitan refuses 1, as the last one may not be whole yet; 2 are kept");
  to.notes.push_back(
      "torchtitan 0.3.0 has no TOML: these are fields of its CheckpointManager.Config, by the same names");
  to.notes.push_back(
      "the last save of a run is synchronous, and of the model alone unless last_save_model_only = false");
}

}  // namespace

const Trainer& torchtitan() {
  static constexpr Trainer kTrainer = {
      .name = "torchtitan", .version = "0.2.2", .save_modes = kModes.size(), .save = save, .yaml = false};
  return kTrainer;
}

}  // namespace memtune::trainer
