// Costs of one training step: time of each op and memory at each moment. A trial records them, so that the step
// simulator can predict the step under another plan without running it. Plain data, stored as JSON.
//
//   runs       0      1      2    ...          forward, in order: values read, created and saved
//   moments    unpack s7, end s7, unpack s6 …  backward, in order: saved tensors unpacked and freed
//
// The recording plan offloads nothing: activations are kept on the device or recomputed. If it offloaded parameters and
// optimizer states, times and bytes are those of a step with these on the device. Byte counts are the
// allocator's allocated bytes; a peak covers the time from its entry to the next one. Gradient accumulation: the last
// micro-batch is recorded, when gradients are already allocated.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/plan/strategy/plan.h"

namespace memtune::plan {

inline constexpr double kBytesPerMs = 1e6;  // 1 GB/s in bytes per ms

struct RecordedStepCosts {
  // A storage that an op created, or its new content after an in-place op.
  struct Value {
    int run = -1;       // index into `runs` of its creator; -1: created outside of the step
    int output = 0;     // output index of the op, with lists flattened; kPrivateSave: saved for the op's own backward
    int64_t bytes = 0;  // size of the storage
    // For a private value that autocast created: the value it was cast from. kNoCast: no cast. kCastOfOther: a cast of
    // something that is no value, such as a parameter.
    int cast_of = kNoCast;
    bool operator==(const Value&) const = default;
  };
  static constexpr int kNoCast = -2, kCastOfOther = -1;

  // One execution of an op in forward.
  struct Run {
    int op = 0;                    // number in ProgramFacts::ops
    double ms = 0;                 // compute stream, until the next run starts
    double host_ms = 0;            // host, until the next run starts
    int64_t before_bytes = 0;      // allocated at its start
    int64_t own_bytes = 0;         // peak above before_bytes during the op, outputs included
    bool writes_outside = false;   // writes to storage from outside of the step, so it cannot be recomputed
    std::vector<int> reads = {};   // values, without repeats
    std::vector<int> makes = {};   // values created, in order, private ones included
    std::vector<int> writes = {};  // values overwritten in place; their new content is in `makes`
    std::vector<int> saves = {};   // indices into `saved`, in order
    std::vector<int> units = {};   // indices into Sharding::units that it reads
    bool operator==(const Run&) const = default;
  };

  // A tensor that autograd saved.
  struct Saved {
    int value = 0;
    int run = 0;  // index of the run that saved it
    bool operator==(const Saved&) const = default;
  };

  struct Moment {
    enum class Kind {
      unpack,  // backward received `saved`, after any recomputation
      end,     // `saved` is released; if it was the value's last consumer, the value is freed right after
    };
    Kind kind = Kind::unpack;
    int saved = 0;
    double ms = 0;             // kind unpack: compute stream, until the next unpack request or backward's end
    double host_ms = 0;        // host, over the same time
    int64_t before_bytes = 0;  // allocated at this moment
    // Peak allocated bytes from this moment to the next one. For `end`, counted after the tensor is freed.
    int64_t peak_bytes = 0;
    bool operator==(const Moment&) const = default;
  };

  // For parameters sharded over ranks (FSDP): a unit is gathered as a whole. schedule::ParameterGatherScheduler
  // determines when.
  struct Unit {
    std::string name;
    int64_t bytes = 0;     // when gathered
    double gather_ms = 0;  // from request to completion, while the step runs
    bool operator==(const Unit&) const = default;
  };
  // A backward node is about to read units, whose gathers have completed.
  struct UnitRead {
    int moment = 0;            // number of moments before it
    int64_t before_bytes = 0;  // allocated after the gathers
    int64_t peak_bytes = 0;    // peak from here to the next entry
    double wait_ms = 0;        // host time waiting for the gathers, not part of a moment's times
    std::vector<int> units = {};
    bool operator==(const UnitRead&) const = default;
  };
  struct Sharding {
    static constexpr int64_t kUnknown = -1;
    int ranks = 1, rank = 0;         // the rank that recorded the costs
    std::string reshard = "always";  // a word of kReshard
    double forward_wait_ms = 0;      // host time waiting for gathers, not part of a run's times
    // On the device between steps: shards of parameters and optimizer states. kUnknown: recorded by an earlier memtune.
    int64_t shard_bytes = kUnknown;
    std::vector<Unit> units;      // empty: not sharded
    std::vector<UnitRead> reads;  // in order
    bool operator==(const Sharding&) const = default;
  };

  // Parameters and optimizer states, for plans that offload them: of a block, or of what is before or behind the
  // blocks.
  struct StateUnit {
    static constexpr int kBefore = -1, kBehind = -2;
    std::string name;  // of the plan's UnitStatePlacement, but for what is outside of blocks
    int block = kBefore;
    int64_t trained_bytes = 0, frozen_bytes = 0;  // parameters
    int64_t moment_bytes = 0;                     // optimizer states on the device
    bool operator==(const StateUnit&) const = default;
  };
  struct States {
    bool clips = false;                // the update needs all gradients
    bool updates_in_backward = false;  // as recorded
    std::vector<StateUnit> units;      // empty: not recorded
    // If the recorded step offloaded some: where they were, and the median of measured steps without recording.
    std::vector<UnitStatePlacement> placements = {};
    double measured_ms = 0;
    bool operator==(const States&) const = default;
  };

  // How long the host takes to issue the step's work, without its waits for the device and without recording. With
  // these times, those of runs and moments are of a device that always had work enqueued. Empty: not recorded.
  struct IssueTime {
    double ms = 0;
    bool waits = false;  // the host waits until the device has done it, because it reads a result
    bool operator==(const IssueTime&) const = default;
  };
  struct IssueTimes {
    std::vector<IssueTime> runs, moments;  // as RecordedStepCosts::runs and moments
    double before_ms = 0;                  // in before_ms
    double after_ms = 0;                   // of the optimizer
    double engine_ms = 0;                  // of the engines' hooks in a pass, which a step with everything kept lacks
    double copy_ms = 0;                    // of one copy to or from host memory
    bool operator==(const IssueTimes&) const = default;
  };

  int64_t grain_bytes = 1;           // allocation granularity; sizes are rounded up to a multiple
  bool expandable_segments = false;  // of the allocator, for all steps: the user's environment sets it
  int64_t start_bytes = 0;           // allocated before the step
  // On the device beside what is allocated: context, libraries, and what the segments of start_bytes have free. 0 on
  // CPU.
  int64_t device_overhead_bytes = 0;
  // Median of measured steps without recording, optimizer included. If these offloaded parameters or optimizer states:
  // the sum of recorded times.
  double step_ms = 0;
  double rerun_ms = 0;                       // recomputation in backward: from unpack requests to their results
  double before_ms = 0;                      // backward, until its first unpack request
  int64_t before_peak_bytes = 0;             // from the end of forward to the first moment
  double after_ms = 0;                       // after backward: the optimizer
  int64_t after_peak_bytes = 0;              // from the last moment to the step's end
  int passes = 1;                            // micro-batches per step (gradient accumulation)
  double rerun_ratio = 1;                    // recomputation time of a run divided by its time in forward
  double out_gb_per_s = 0, in_gb_per_s = 0;  // idle PCIe bandwidth, 1e9 bytes; 0: not known
  double disk_write_gb_per_s = 0, disk_read_gb_per_s = 0;  // of the scratch folder, measured during steps
  double copy_slowdown = 0;                                // extra ms of compute per ms of overlapped copies
  std::vector<Value> values;
  std::vector<Run> runs;
  std::vector<Saved> saved;
  std::vector<Moment> moments;
  // Parameter gradients at each moment and after backward; if sharded, their shards. Empty: not recorded.
  std::vector<int64_t> gradient_bytes;
  Plan plan;  // the plan under which it was recorded; offloads nothing
  Sharding sharding;
  IssueTimes issue;
  States states;

  // Sum of the recorded times of a step; of a device that always had work, if there are issue times.
  double recorded_ms(int micro_batches) const;
  bool has_issue_times() const { return !issue.runs.empty(); }
  bool sharded() const { return !sharding.units.empty(); }
  bool operator==(const RecordedStepCosts&) const = default;
};

void to_json(nlohmann::json& json, const RecordedStepCosts& costs);
void from_json(const nlohmann::json& json,
               RecordedStepCosts& costs);  // throws UsageError naming the field; checks all indices

}  // namespace memtune::plan
