// The points (batch, sequence) at which a sweep tries strategies, and the facts of the model at each of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/sweep/loop/sweep.h"
#include "core/sweep/loop/trial_key.h"
#include "core/sweep/proposals/trial_proposer.h"
#include "core/sweep/trials/prestarted_trial_process.h"

namespace memtune::sweep {

class InspectedModelShapeGrid {
 public:
  // All arguments outlive it. `spare`: for the trial behind an inspection; may be null.
  InspectedModelShapeGrid(const EngineSweepSettings& settings, SweepListener& listener, const RunDirectory& directory,
                          const TrialKeyHasher& keys, PrestartedTrialProcess* spare)
      : settings_(settings), listener_(listener), directory_(directory), keys_(keys), spare_(spare) {}

  // Inspect the model at the first point, or at all points. Return false if a signal arrived. Throw like run_sweep.
  bool inspect_first();
  bool inspect_all();
  // Index of the point with that batch and the sequence of point `like`. A new point is inspected first. None after a
  // signal.
  std::optional<size_t> find_or_inspect(int64_t batch, size_t like);

  const std::vector<InspectedModelAtShape>& points() const { return points_; }
  plan::TrialRequest request_at(const InspectedModelAtShape& point) const;
  // One note per point where the model could not be inspected, so that plans use the facts of the first point.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  bool inspect(const std::optional<int64_t>& batch, const std::optional<int64_t>& sequence);

  const EngineSweepSettings& settings_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  const TrialKeyHasher& keys_;
  PrestartedTrialProcess* const spare_;
  std::vector<InspectedModelAtShape> points_;
  std::vector<std::string> notes_;
};

}  // namespace memtune::sweep
