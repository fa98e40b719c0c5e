// Translates between memtune's strategies and a trainer's keys, in both directions. Both use the same data,
// SpaceProfile::strategies.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/strategy/strategy.h"
#include "core/answer/trainer/own_settings.h"

namespace memtune::trainer {

struct Keys {
  Changes changes;
  std::vector<std::string> notes;  // notes for the user
};

// The strategy that a config amounts to.
struct Meaning {
  std::string strategy;            // canonical
  bool nearly = false;             // similar, but peak and time differ
  std::vector<std::string> notes;  // why it is only similar, and other notes
};

class Dialect {
 public:
  // The references must outlive this object. `blocks` of the model; 0: unknown.
  Dialect(const SpaceProfile& profile, const OwnSettings& own, const std::map<std::string, std::string>& releases,
          int blocks = 0)
      : profile_(profile), own_(own), releases_(releases), blocks_(blocks) {}

  // The keys that amount to exactly `strategy` and that the trainer accepts together with the user's config. None if
  // there are no such keys; `why` is then the reason, or "" if it is unknown.
  std::optional<Keys> keys_of(const plan::Strategy& strategy, std::string& why) const;
  // The strategy of the user's settings with `changes` applied; none if no strategy of memtune matches.
  std::optional<Meaning> meaning(const Changes& changes = {}) const;
  // Whether any of these keys belongs to a strategy.
  bool is_about(const Changes& changes) const;

 private:
  bool takes(Keys& keys, std::string& why) const;
  bool may_hold(const Rule& rule, const Changes& changes) const;

  const SpaceProfile& profile_;
  const OwnSettings& own_;
  const std::map<std::string, std::string>& releases_;
  int blocks_;
};

}  // namespace memtune::trainer
