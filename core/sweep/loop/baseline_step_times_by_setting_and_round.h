// Step times of the baselines in this run of memtune, by setting and round. The baseline of a setting is its first
// trial that worked, `none` if it did. Measurements of earlier runs are not used: machine conditions may differ.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace memtune::sweep {

struct BaselineStepTime {
  std::string strategy;
  double step_ms = 0;  // median
};

class BaselineStepTimesBySettingAndRound {
 public:
  void add(size_t setting, size_t round, const BaselineStepTime& baseline) { measured_[{setting, round}] = baseline; }

  // None if it was not measured in this run.
  std::optional<BaselineStepTime> find(size_t setting, size_t round) const {
    const auto found = measured_.find({setting, round});
    return found == measured_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::pair<size_t, size_t>, BaselineStepTime> measured_;
};

}  // namespace memtune::sweep
