// Strategies in the words of trainers: which keys, and what gets lost on the way. A trainer is a file that fills in a
// Trainer, and a row of the table in trainer.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/strategy.h"

namespace memtune::trainer {

// What of a strategy a trainer can have keys for: one part, of joined ones the first that does not offload.
struct Wanted {
  explicit Wanted(const config::Strategy& strategy, int blocks = 0);
  Wanted(config::StrategyPart part, std::vector<config::StrategyPart> joined, int blocks)
      : part(std::move(part)), joined(std::move(joined)), blocks(blocks) {}

  bool is(config::StrategyKind kind) const { return part.kind() == kind; }
  bool every_nth() const { return part.every() > 1; }  // not every block
  // An offload part beside a checkpoint comes nearest to moving the inputs.
  bool moves_inputs() const;

  config::StrategyPart part;
  std::vector<config::StrategyPart> joined;  // the other parts
  int blocks = 0;                            // of the model; 0: not known
};

struct Config {
  std::vector<std::string> keys;   // lines of YAML, or as the trainer's configuration is written
  std::vector<std::string> notes;  // what was rounded, and what the person must see to
  // What the keys amount to, when it is another strategy, or the same one with other blocks: the trial's figures are
  // not theirs then.
  std::optional<config::Strategy> nearest = {};
};

// How the state of a training is to be saved.
struct Saving {
  size_t mode = 0;  // of config::kSaveModes
  int64_t every_steps = 1;
  int64_t keep_last = 0;  // 0: all
};

struct Trainer {
  std::string_view name, version;
  Config (*config)(const Wanted& wanted) = nullptr;  // keys that this version really acts on; null: of saving alone
  std::string_view batch_key = "", accumulate_key = "";
  std::string_view sequence_key = "";   // "": it has none, and
  std::string_view sequence_note = "";  // says where else to set it
  size_t save_modes = 1;                // how many of config::kSaveModes it has, from the first on
  void (*save)(const Saving& saving, Config& to) = nullptr;
  bool yaml = true;  // the form of its configuration
};
const Trainer& torchtune();
const Trainer& axolotl();
const Trainer& torchtitan();
const Trainer& transformers();
const Trainer& trl();
const Trainer& ms_swift();
const Trainer& megatron();

// Notes for the settings of an offload part, which trainers fix.
void note_fixed_settings(const Wanted& wanted, const std::string& habit, Config& config);

// Notes for what no trainer has keys for, in strategies that it otherwise has; then `nearest` is set where it is not.
void note_losses(const Wanted& wanted, const std::string& trainer, Config& config);

// The strategy that checkpointing keys amount to.
config::Strategy without_losses(const Wanted& wanted);

}  // namespace memtune::trainer
