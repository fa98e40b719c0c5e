// Learns the order in which a pass over the program reads units, so that the next one can be prefetched. The order is
// that of the previous pass.
#pragma once

#include <optional>
#include <utility>
#include <vector>

namespace memtune::schedule {

class NextGatherPredictor {
 public:
  // Starts a pass. Returns the unit that was read first in the previous pass, or nothing if none is known.
  std::optional<int> begin() {
    if (!asked_.empty()) known_ = std::exchange(asked_, {});
    follows_ = true;
    return known_.empty() ? std::nullopt : std::optional(known_.front());
  }

  // Records that the pass reads `unit` now. Returns the unit that came next in the previous pass; nothing at its end or
  // once this pass deviates from it.
  std::optional<int> next(int unit) {
    asked_.push_back(unit);
    const size_t at = asked_.size();
    follows_ = follows_ && at <= known_.size() && known_[at - 1] == unit;
    if (!follows_ || at == known_.size()) return {};
    return known_[at];
  }

 private:
  std::vector<int> known_, asked_;
  bool follows_ = true;
};

}  // namespace memtune::schedule
