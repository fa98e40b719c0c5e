// What trials of a setting are compared with in each round: the first that worked there, `none` where it does. Its step
// is taken in the same round of the same run of memtune; what an earlier run measured is another hour's.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace memtune::sweep {

struct Baseline {
  std::string strategy;
  double step_ms = 0;  // median
};

class Baselines {
 public:
  void add(size_t setting, size_t round, const Baseline& baseline) { measured_[{setting, round}] = baseline; }

  // Nothing: not measured in this run.
  std::optional<Baseline> find(size_t setting, size_t round) const {
    const auto found = measured_.find({setting, round});
    return found == measured_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::pair<size_t, size_t>, Baseline> measured_;
};

}  // namespace memtune::sweep
