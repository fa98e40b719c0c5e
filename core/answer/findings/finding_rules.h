// The rules that make findings. A rule looks at one trial and returns one finding or none. "a step" is the time in all
// traced steps divided by their number; "of the step" is relative to the measured step. Sets of time are those of
// trace::StepDeviceTimeBreakdown. They are disjoint, so no time is counted twice.
#pragma once

#include <optional>
#include <span>

#include "core/answer/findings/findings.h"
#include "core/answer/findings/suggested_strategy_builder.h"
#include "core/record/trace/step_device_time_breakdown.h"

namespace memtune::findings {

// One trial, as rules see it.
struct TrialTraceMeasurementAndPlan {
  TrialTraceMeasurementAndPlan(const trace::Trace& trace, const result::TrialMeasurement& measurement,
                               const plan::Plan* plan);

  // True if its plan has copies to schedule: measured ones, or those in the trace if nothing was measured.
  bool offloads_values() const;
  double per_step_ms(int64_t ns) const;
  double share_of_step(double ms) const;  // 0 if the step was not timed
  // A finding that costs `ms` per step, with severity and weight.
  Finding costs(const char* rule, double ms, std::string what, AdviceTextAndStrategy advice) const;
  // A finding about `bytes` of the peak.
  Finding concerns(const char* rule, int64_t bytes, std::string what, AdviceTextAndStrategy advice) const;
  // The longest interval of `set`, and the events of `kind` within `set`, those with most time in it first.
  FindingTraceEvidence evidence(const trace::Intervals& set, trace::EventKind kind) const;

  const trace::Trace& trace;
  const result::TrialMeasurement& measurement;
  const plan::Plan* plan;
  SuggestedStrategyBuilder tunables;
  std::vector<trace::TimeInterval> steps;
  trace::StepDeviceTimeBreakdown breakdown;
  int64_t peak_bytes = 0;  // the measured one, or that of the trace if nothing was measured
  double step_ms = 0;      // the measured median, or the average in the trace if nothing was measured
};

constexpr double kSignificantShare = 0.01;  // of the step: less is noise
constexpr double kSevereShare = 0.05;       // of the step: more is a problem

using Rule = std::optional<Finding> (*)(const TrialTraceMeasurementAndPlan&);

// copy_rules.cpp. Copies that total less than 1 MiB per step are the model's own and are ignored. A trial that offloads
// nothing has no late copies, because there is no copy whose schedule could be changed.
//
// StepDeviceTimeBreakdown::in is at least kSignificantShare: backward waits for reloads. The link's bandwidth is the
// limit if these copies fill 90 % of the time from the first to the last of a step, and 30 % of the step. A deeper
// prefetch does not help then, and the advice is to offload less. Otherwise it is to keep the last block, if half of
// the late time is its, or a deeper prefetch.
std::optional<Finding> copies_in_late(const TrialTraceMeasurementAndPlan& subject);
// The same for StepDeviceTimeBreakdown::out and copies out: compute waits until sources are copied. The advice is a
// larger stash.
std::optional<Finding> copies_out_late(const TrialTraceMeasurementAndPlan& subject);
// Recorded waits without any copy or compute take at least kSignificantShare.
std::optional<Finding> waits(const TrialTraceMeasurementAndPlan& subject);
// Copies under 4 MiB run under 60 % of the link's rate. The time that they lose is at least kSignificantShare.
std::optional<Finding> small_copies(const TrialTraceMeasurementAndPlan& subject);
// The larger copies of a direction run under 80 % of the link's idle rate: their bytes divided by the union of their
// time.
std::optional<Finding> slow_out(const TrialTraceMeasurementAndPlan& subject);
std::optional<Finding> slow_in(const TrialTraceMeasurementAndPlan& subject);
// Copies of pageable memory total 1 MiB per step or more: they block the host and run at a fraction of the rate.
std::optional<Finding> pageable_copies(const TrialTraceMeasurementAndPlan& subject);

// memory_rules.cpp
//
// The owner that holds most memory at the peak, by the latest OwnerMemorySample of each owner. Memory without an owner
// is work space. If that is largest in the head, and a loss with whole logits was run, a loss without whole logits is
// advised.
std::optional<Finding> peak_owner(const TrialTraceMeasurementAndPlan& subject);
// The trial recomputes or offloads although its peak leaves 10 % of the budget unused.
std::optional<Finding> budget_unused(const TrialTraceMeasurementAndPlan& subject);
// The allocator reserves 10 % and 1 GiB more of the device than tensors hold at the peak.
std::optional<Finding> fragmentation(const TrialTraceMeasurementAndPlan& subject);
// OffloadStallTimes::room_ms is at least kSignificantShare: the host waited for room in host memory.
std::optional<Finding> host_memory_full(const TrialTraceMeasurementAndPlan& subject);
// OffloadStallTimes::disk_ms is at least kSignificantShare: the host waited for reads from the disk.
std::optional<Finding> disk_late(const TrialTraceMeasurementAndPlan& subject);
// Measurement::recompute_ms is at least kSignificantShare, and longer than copies of the recomputed activations out and
// in would take without any overlap.
std::optional<Finding> recompute_expensive(const TrialTraceMeasurementAndPlan& subject);

// time_rules.cpp
//
// StepDeviceTimeBreakdown::idle between the first and the last device event of each step is at least 2 % of it: the
// host issues too slowly. Not reported beside host_bound().
std::optional<Finding> device_idle(const TrialTraceMeasurementAndPlan& subject);
// The device waits for the host for at least 10 % of the measured step, and twice the spread of measured steps. It is
// the idle time, but no more than the measured step is longer than what the device does in a traced one. Idle time that
// is mostly in the optimizer does not count.
std::optional<Finding> host_bound(const TrialTraceMeasurementAndPlan& subject);
// What share of the traced steps the blocks take, with backward and recomputation, and what is before and behind them.
std::optional<Finding> block_times(const TrialTraceMeasurementAndPlan& subject);
// StepDeviceTimeBreakdown::collectives is at least kSignificantShare: ranks communicate, or wait for each other, while
// nothing computes.
std::optional<Finding> collectives_exposed(const TrialTraceMeasurementAndPlan& subject);
// The profiler dropped records.
std::optional<Finding> records_lost(const TrialTraceMeasurementAndPlan& subject);
// The trial is marked noisy.
std::optional<Finding> steps_vary(const TrialTraceMeasurementAndPlan& subject);
// Traced steps took at least 10 % longer than measured ones.
std::optional<Finding> profiler_slows(const TrialTraceMeasurementAndPlan& subject);

std::span<const Rule> all_rules();

}  // namespace memtune::findings
