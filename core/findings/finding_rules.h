// The rules behind findings. A rule looks at one trial and has one thing to say or none. "a step" is the time in all
// traced steps divided by their number; "of the step" is against the measured step. Sets of time are those of
// trace::Occupation: in, out, collectives, wait and idle share no moment, so no time is told twice.
#pragma once

#include <optional>
#include <span>

#include "core/findings/findings.h"
#include "core/findings/knobs.h"
#include "core/trace/occupation.h"

namespace memtune::findings {

// One trial as rules see it.
struct Subject {
  Subject(const trace::Trace& trace, const result::Measurement& measurement, const config::Plan* plan);

  // Its plan has copies to schedule: measured ones, or those of the trace where nothing was measured.
  bool moves_values() const;
  double per_step_ms(int64_t ns) const;
  double share_of_step(double ms) const;  // 0 when the step was not timed
  // A finding that costs `ms` of each step, its severity and weight set.
  Finding costs(const char* rule, double ms, std::string what, Advice advice) const;
  // A finding about `bytes` of the peak.
  Finding concerns(const char* rule, int64_t bytes, std::string what, Advice advice) const;
  // The longest stretch of `set`, and the events of `kind` that lie in `set`, those with most time in it first.
  Evidence evidence(const trace::Intervals& set, trace::EventKind kind) const;

  const trace::Trace& trace;
  const result::Measurement& measurement;
  const config::Plan* plan;
  Knobs knobs;
  std::vector<trace::Interval> steps;
  trace::Occupation occupation;
  int64_t peak_bytes = 0;  // the measured, or the trace's when nothing was measured
  double step_ms = 0;      // the measured median, or that of the trace when nothing was measured
};

constexpr double kWorthTelling = 0.01;  // of the step: less is within what steps vary by
constexpr double kGrave = 0.05;         // of the step

using Rule = std::optional<Finding> (*)(const Subject&);

// copy_rules.cpp. Copies of less than 1 MiB a step altogether are the model's own and pass all of these. Of a trial
// that moves no values nothing is late: there is no copy whose schedule could be changed.
//
// Occupation::in is at least kWorthTelling: backward stood still while what it needs was on its way. When the copies in
// fill 90 % of the time between the first and the last of a step, and 30 % of the step, the link is the limit and a
// deeper prefetch is no help: then the advice is to move less. Otherwise it is to keep the last block, where half of
// the late time is its, or a deeper prefetch.
std::optional<Finding> copies_in_late(const Subject& subject);
// The same of Occupation::out, for copies out, and a larger stash: compute stood still until sources had left.
std::optional<Finding> copies_out_late(const Subject& subject);
// Waits are recorded while no copy ran and nothing was computed, at least kWorthTelling.
std::optional<Finding> waits(const Subject& subject);
// Copies under 4 MiB that ran under 60 % of the link's rate; what they took longer than at its rate is at least
// kWorthTelling.
std::optional<Finding> small_copies(const Subject& subject);
// The other copies of a direction, their bytes over the union of their time, ran under 80 % of the link's idle rate.
std::optional<Finding> slow_out(const Subject& subject);
std::optional<Finding> slow_in(const Subject& subject);
// Copies of pageable memory move 1 MiB a step or more: they hold up the host and run at a fraction of the rate.
std::optional<Finding> pageable_copies(const Subject& subject);

// memory_rules.cpp
//
// Who holds most where memory is highest: the latest OwnedSample of each owner; what no owner has is work space.
// Where that is the head's, and a whole loss over classes was run, a loss without whole logits is advised.
std::optional<Finding> peak_owner(const Subject& subject);
// The trial recomputes or moves values while its peak leaves 10 % of the budget unused.
std::optional<Finding> budget_unused(const Subject& subject);
// Stalls::room_ms is at least kWorthTelling: the host waited for room in host memory.
std::optional<Finding> host_memory_full(const Subject& subject);
// Stalls::disk_ms is at least kWorthTelling: the host waited for reads.
std::optional<Finding> disk_late(const Subject& subject);
// Measurement::recompute_ms is at least kWorthTelling and more than the link, there and back, would take for the bytes
// of the values that are recomputed, even if no copy were hidden.
std::optional<Finding> recompute_dear(const Subject& subject);

// time_rules.cpp
//
// Occupation::idle between the first and the last device event of each step is at least 2 % of it: the host issues too
// slowly.
std::optional<Finding> device_idle(const Subject& subject);
// Occupation::collectives is at least kWorthTelling: ranks exchanged what they hold, or waited for each other, while
// nothing computed.
std::optional<Finding> collectives_exposed(const Subject& subject);
// The profiler dropped records.
std::optional<Finding> records_lost(const Subject& subject);
// The trial is marked noisy.
std::optional<Finding> steps_vary(const Subject& subject);
// Traced steps took 10 % longer than measured ones, or more.
std::optional<Finding> profiler_slows(const Subject& subject);

std::span<const Rule> all_rules();

}  // namespace memtune::findings
