// What to turn, in memtune's own words: a parameter of the trial's strategy, or a field of a plan file where the
// strategy has none.
#pragma once

#include <string>

#include "core/config/plan.h"

namespace memtune::findings {

class Knobs {
 public:
  // `plan` may be null: then present settings are not known.
  Knobs(std::string strategy, const config::Plan* plan) : strategy_(std::move(strategy)), plan_(plan) {}

  std::string deeper_prefetch() const;          // "prefetch=1GiB -> prefetch=2GiB"
  std::string larger_stash() const;             // more sources that may wait for their copies out
  std::string move_less(double share) const;    // "fraction=1 -> fraction=0.6": `share` of what moves now
  std::string keep_small(int64_t bytes) const;  // "min=1MiB -> min=4MiB": smaller values stay
  std::string pinned() const;
  std::string keep_last() const;  // "keep_last=0 -> keep_last=1"
  std::string do_less() const;    // where memory is left: less moved, or fewer blocks recomputed
  bool offloads() const;          // the strategy has a part whose parameters schedule copies

 private:
  std::string setting(const std::string& parameter, const std::string& field, const std::string& from,
                      const std::string& to) const;
  // The parameter's value as the strategy has it, or `otherwise`.
  std::string value(const std::string& parameter, const std::string& otherwise) const;

  std::string strategy_;
  const config::Plan* plan_;
};

}  // namespace memtune::findings
