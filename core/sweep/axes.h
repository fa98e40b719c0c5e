// The points at which a sweep tries strategies, each batch with each sequence, and the model as it is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/sweep/proposer.h"
#include "core/sweep/sweep.h"
#include "core/sweep/trial_key.h"

namespace memtune::sweep {

class Axes {
 public:
  // All outlive it.
  Axes(const SweepSettings& settings, SweepListener& listener, const RunDirectory& directory, const TrialKeys& keys)
      : settings_(settings), listener_(listener), directory_(directory), keys_(keys) {}

  // Looks at the model at the first point, or at all of them; false when a signal came. Throws as run_sweep.
  bool inspect_first();
  bool inspect_all();
  // The number of the point with that batch and the sequence of `like`, which is looked at when it is new; nothing when
  // a signal came.
  std::optional<size_t> find_or_inspect(int64_t batch, size_t like);

  const std::vector<Setting>& points() const { return points_; }
  config::TrialRequest request_at(const Setting& point) const;
  // That plans for a point are made as for the first, for the model cannot be looked at there.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  bool inspect(const std::optional<int64_t>& batch, const std::optional<int64_t>& sequence);

  const SweepSettings& settings_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  const TrialKeys& keys_;
  std::vector<Setting> points_;
  std::vector<std::string> notes_;
};

}  // namespace memtune::sweep
