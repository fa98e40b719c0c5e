#include "core/plan/planner/step_beside.h"

#include <algorithm>

#include "core/plan/planner/step_playback.h"

namespace memtune::planner {
namespace {

using plan::StepCosts;
using Kind = StepCosts::Moment::Kind;

// Subtracts the simulated bytes of the values from a recorded step.
class Beside {
 public:
  Beside(const StepCosts& costs, const StepBeside& held) : costs_(costs), held_(held) {}

  StepBeside find() const {
    StepBeside beside = StepBeside::nothing(costs_);
    for (size_t i = 0; i < costs_.runs.size(); ++i)
      beside.runs[i] = {costs_.runs[i].before_bytes - held_.runs[i].before_bytes, 0, held_.runs[i].gathered_bytes};
    for (size_t i = 0; i < costs_.moments.size(); ++i)
      beside.moments[i] = {before(i), costs_.moments[i].peak_bytes - held_.moments[i].peak_bytes,
                           held_.moments[i].gathered_bytes};
    for (size_t i = 0; i < beside.reads.size(); ++i) {
      const StepCosts::UnitRead& read = costs_.sharding.reads[i];
      beside.reads[i] = {read.before_bytes - held_.reads[i].before_bytes, read.peak_bytes - held_.reads[i].peak_bytes};
    }
    beside.gather_wait_ms = held_.gather_wait_ms;
    beside.before_peak_bytes = costs_.before_peak_bytes - held_.before_peak_bytes;
    beside.after_peak_bytes = costs_.after_peak_bytes - held_.after_peak_bytes;
    return beside;
  }

 private:
  // An unpack was recorded after its recomputation, an end before it freed anything.
  int64_t before(size_t moment) const {
    const StepBeside::Entry& held = held_.moments[moment];  // before the moment and after it
    const StepCosts::Moment& recorded = costs_.moments[moment];
    return recorded.before_bytes - (recorded.kind == Kind::unpack ? held.peak_bytes : held.before_bytes);
  }

  const StepCosts& costs_;
  const StepBeside& held_;
};

}  // namespace

StepBeside StepBeside::nothing(const StepCosts& costs) {
  StepBeside none;
  none.runs.resize(costs.runs.size());
  none.moments.resize(costs.moments.size());
  none.reads.resize(costs.sharding.reads.size());
  return none;
}

StepBeside find_beside(const StepTables& tables, const StepCosts& costs) {
  // The first step has no unmodelled memory yet, the second has it, the third is as each later one.
  constexpr int kSteps = 3;
  BlockCache cache(costs.grain_bytes);
  StepBeside beside = StepBeside::nothing(costs);
  StepPlayback::Before before;
  for (int step = 0; step < kSteps; ++step) {
    schedule::LearnedSchedule schedule;
    StepPlayback playback(tables, costs, beside, costs.plan, schedule, cache, {}, before);
    playback.play();
    before = playback.before_next();
    beside = Beside(costs, playback.held()).find();
  }
  return beside;
}

}  // namespace memtune::planner
