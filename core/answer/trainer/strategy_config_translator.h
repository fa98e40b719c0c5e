// Translates between memtune's strategies and a trainer's keys, in both directions. Both use the same data,
// TrainerProfile::strategies.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::trainer {

struct StrategyConfigChangesAndNotes {
  Changes changes;
  std::vector<std::string> notes;  // notes for the user
};

// The strategy that a config amounts to.
struct ConfigEquivalentStrategy {
  std::string strategy;            // canonical
  bool nearly = false;             // similar, but peak and time differ
  std::vector<std::string> notes;  // why it is only similar, and other notes
  std::string reason;              // the keys that decide: "gradient_checkpointing: true"
};

class StrategyConfigTranslator {
 public:
  // The references must outlive this object. `blocks` of the model; 0: unknown.
  StrategyConfigTranslator(const TrainerProfile& profile, const EditableUserTrainerSettings& own,
                           const std::map<std::string, std::string>& releases, int blocks = 0)
      : profile_(profile), own_(own), releases_(releases), blocks_(blocks) {}

  // The keys that amount to exactly `strategy` and that the trainer accepts together with the user's config. None if
  // there are no such keys; `why` is then the reason, or "" if it is unknown.
  std::optional<StrategyConfigChangesAndNotes> keys_of(const plan::Strategy& strategy, std::string& why) const;
  // The strategy of the user's settings with `changes` applied; none if no strategy of memtune matches, or if the
  // settings have a key about activations that the profile does not know.
  std::optional<ConfigEquivalentStrategy> meaning(const Changes& changes = {}) const;
  // Why meaning() is none, in one sentence.
  std::string why_none() const;
  // Whether any of these keys belongs to a strategy.
  bool is_about(const Changes& changes) const;

 private:
  std::string unknown_keys() const;
  bool is_known(const Path& path) const;
  bool takes(StrategyConfigChangesAndNotes& keys, std::string& why) const;
  bool may_hold(const ConfigRejectionRule& rule, const Changes& changes) const;

  const TrainerProfile& profile_;
  const EditableUserTrainerSettings& own_;
  const std::map<std::string, std::string>& releases_;
  int blocks_;
};

}  // namespace memtune::trainer
