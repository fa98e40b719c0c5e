// The recorded step in the form that the simulator reads: made once, read by every prediction. Values are mapped to
// storages: an in-place result has the storage of the value that it overwrites. Units are bytes and milliseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

// Lists of integers in one array.
class FlattenedLists {
 public:
  explicit FlattenedLists(const std::vector<std::vector<int>>& lists);
  std::span<const int> operator[](int i) const { return {items_.data() + begin_[i], items_.data() + begin_[i + 1]}; }

 private:
  std::vector<int> begin_ = {0}, items_;
};

struct RecordedStepSimulationTables {
  struct Value {
    int number = 0;  // index into `values`
    int run = -1;
    int block = -1;   // of the op that made it; -1 also for values from outside of the step
    int output = 0;   // of the op, a list counts as one; kPrivateSave
    int storage = 0;  // values with the same number share memory
    int cast_of = plan::RecordedStepCosts::kNoCast;
    int64_t bytes = 0;       // as requested
    int64_t held_bytes = 0;  // as allocated, at least
    bool outside = false;
    bool in_place = false;  // in the storage of an earlier value
    // Autocast caches it until the end of the forward.
    bool cached() const { return cast_of == plan::RecordedStepCosts::kCastOfOther && run >= 0; }
  };
  struct Run {
    int op = 0, block = -1;
    bool after_blocks = false, writes_outside = false;
    bool on_host = false;                      // returns a size or a type: never recomputed
    int64_t generator_bytes = 0;               // state of the random generator; 0: not in the device's memory
    int64_t own_bytes = 0, scratch_bytes = 0;  // scratch: the part that is not its outputs
    int64_t before_bytes = 0;
    double ms = 0, host_ms = 0;  // scaled so that the recorded step takes step_ms
    bool host_waits = false;     // see RecordedStepCosts::IssueTime
  };

  RecordedStepSimulationTables(const plan::ProgramFacts& facts, const plan::RecordedStepCosts& costs);

  std::vector<Value> values;
  std::vector<Run> runs;
  std::vector<int64_t> storage_bytes;  // by storage, as allocated, at least; 0: not of the step
  std::vector<int64_t> op_bytes;       // by op: the largest own_bytes
  double scale = 1;                    // factor on recorded times
  bool issues = false;                 // there are RecordedStepCosts::IssueTimes
  double hook_ms = 0;                  // host time of the engines for each op and unpack, of plans that use them
  double pass_ms = 0, idle_ms = 0;     // see StepCostsWithWaitsForHost; scaled
  double cast_bytes_per_ms = 0;        // read and written; 0: not known
  FlattenedLists reads, makes, writes, saves;  // by run
  std::vector<double> moment_host_ms;          // scaled
  FlattenedLists last_reads, never_read;       // by run: storages that the step itself frees after it
};

}  // namespace memtune::planner
