// The order in which a pass over the program asks for units, learned from the pass before: what is gathered ahead.
#pragma once

#include <optional>
#include <utility>
#include <vector>

namespace memtune::gather {

class UnitOrder {
 public:
  // The one that was asked for first, last time.
  std::optional<int> begin() {
    if (!asked_.empty()) known_ = std::exchange(asked_, {});
    follows_ = true;
    return known_.empty() ? std::nullopt : std::optional(known_.front());
  }

  // The one that was asked for next, last time; nothing at the end, and where this pass is another than that.
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

}  // namespace memtune::gather
