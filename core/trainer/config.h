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
  std::vector<std::string> keys;   // lines of YAML
  std::vector<std::string> notes;  // what was rounded, and what the person must see to
  // What the keys amount to, when it is another strategy, or the same one with other blocks: the trial's figures are
  // not theirs then.
  std::optional<config::Strategy> nearest = {};
};

struct Trainer {
  std::string_view name, version;
  Config (*config)(const Wanted& wanted);  // keys that this version really acts on
  std::string_view batch_key;
  std::string_view sequence_key;   // "": it has none, and
  std::string_view sequence_note;  // says where else to set it
};
const Trainer& torchtune();
const Trainer& axolotl();

// Notes for the settings of an offload part, which trainers fix.
void note_fixed_settings(const Wanted& wanted, const std::string& habit, Config& config);

// Notes for what no trainer has keys for, in strategies that it otherwise has; then `nearest` is set where it is not.
void note_losses(const Wanted& wanted, const std::string& trainer, Config& config);

// The strategy that checkpointing keys amount to.
config::Strategy without_losses(const Wanted& wanted);

}  // namespace memtune::trainer
