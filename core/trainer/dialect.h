// A trainer's language: memtune's strategies in its keys, and what a config with such keys amounts to. Both are read
// from the same description, SpaceProfile::strategies.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/config/strategy.h"
#include "core/trainer/own_settings.h"

namespace memtune::trainer {

struct Keys {
  Changes changes;
  std::vector<std::string> notes;  // what the person must see to
};

// What a config amounts to.
struct Meaning {
  std::string strategy;            // canonical
  bool nearly = false;             // its peak and time are others'
  std::vector<std::string> notes;  // why, and what else is to be known
};

class Dialect {
 public:
  // All must outlive this. `blocks` of the model; 0: not known.
  Dialect(const SpaceProfile& profile, const OwnSettings& own, const std::map<std::string, std::string>& releases,
          int blocks = 0)
      : profile_(profile), own_(own), releases_(releases), blocks_(blocks) {}

  // The keys that amount to exactly that, and that the trainer takes beside what the user's config says. Nothing: there
  // are none, and `why` has the reason where one is known, else "".
  std::optional<Keys> keys_of(const config::Strategy& strategy, std::string& why) const;
  // Of the user's settings with `changes` made; nothing: it is no strategy of memtune's.
  std::optional<Meaning> meaning(const Changes& changes = {}) const;
  // Whether strategies are about any of these keys.
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
