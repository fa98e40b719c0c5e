#include "core/planner/step_beside.h"

#include <algorithm>

#include "core/planner/step_playback.h"

namespace memtune::planner {
namespace {

using config::StepCosts;
using Kind = StepCosts::Moment::Kind;

// Of one recorded step, and of what its values held on paper.
class Beside {
 public:
  Beside(const StepCosts& costs, const StepBeside& held) : costs_(costs), held_(held) {}

  StepBeside find() const {
    StepBeside beside = StepBeside::nothing(costs_);
    for (size_t i = 0; i < costs_.runs.size(); ++i)
      beside.runs[i].before_bytes = costs_.runs[i].before_bytes - held_.runs[i].before_bytes;
    for (size_t i = 0; i < costs_.moments.size(); ++i)
      beside.moments[i] = {before(i), peak_behind(i) - held_.moments[i].peak_bytes};
    beside.before_peak_bytes = costs_.before_peak_bytes - held_.before_peak_bytes;
    beside.after_peak_bytes = costs_.after_peak_bytes - held_.after_peak_bytes;
    return beside;
  }

 private:
  // Recorded when an unpack had made again what it had to, and before an end let anything go.
  int64_t before(size_t moment) const {
    const auto& [before, behind] = held_.moments[moment];
    const StepCosts::Moment& recorded = costs_.moments[moment];
    return recorded.before_bytes - (recorded.kind == Kind::unpack ? behind : before);
  }

  // Where a saved tensor ends the most until the next moment may be what was there before; then nobody saw what it was
  // once the tensor was gone, but for what the next moment found.
  int64_t peak_behind(size_t moment) const {
    const auto& [before_bytes, behind_bytes] = held_.moments[moment];
    const StepCosts::Moment& now = costs_.moments[moment];
    if (now.kind == Kind::unpack || now.peak_bytes > now.before_bytes || before_bytes == behind_bytes)
      return now.peak_bytes;
    const size_t next = moment + 1;
    const int64_t found = next < costs_.moments.size() ? before(next) + held_.moments[next].before_bytes : 0;
    return std::max(now.before_bytes - (before_bytes - behind_bytes), found);
  }

  const StepCosts& costs_;
  const StepBeside& held_;
};

}  // namespace

StepBeside StepBeside::nothing(const StepCosts& costs) {
  StepBeside none;
  none.runs.resize(costs.runs.size());
  none.moments.resize(costs.moments.size());
  return none;
}

StepBeside find_beside(const StepTables& tables, const StepCosts& costs) {
  tier::LearnedSchedule schedule;
  const StepBeside none = StepBeside::nothing(costs);
  StepPlayback playback(tables, costs, none, costs.plan, schedule);
  playback.play();
  return Beside(costs, playback.held()).find();
}

}  // namespace memtune::planner
