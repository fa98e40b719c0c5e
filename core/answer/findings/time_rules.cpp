#include <algorithm>
#include <map>

#include "core/answer/findings/finding_rules.h"
#include "core/base/layout.h"

namespace memtune::findings {
namespace {

using trace::Intervals;
using trace::TimeInterval;

constexpr double kIdle = 0.02;                    // of the step
constexpr double kOverhead = 0.1;                 // of the measured step
constexpr double kHostBound = 0.1, kSpreads = 2;  // of the step; of the spread of measured steps

// A finding about how reliable the figures are.
Finding doubt(const TrialTraceMeasurementAndPlan& subject, const char* rule, double weight, std::string what,
              std::string advice) {
  Finding finding = subject.costs(rule, 0, std::move(what), std::move(advice));
  finding.severity = Severity::problem;
  finding.weight = weight;
  finding.of_figures = true;
  return finding;
}

// From the first device event of each step to its last. Host work before and after is no gap.
Intervals active(const TrialTraceMeasurementAndPlan& subject) {
  const trace::StepDeviceTimeBreakdown& breakdown = subject.breakdown;
  Intervals busy;
  for (const Intervals* set :
       {&breakdown.compute, &breakdown.in, &breakdown.out, &breakdown.collectives, &breakdown.wait})
    busy.insert(busy.end(), set->begin(), set->end());
  busy = trace::unite(std::move(busy));
  std::vector<TimeInterval> spans;
  for (const TimeInterval& step : subject.steps) {
    const Intervals within = trace::intersect(busy, {step});
    if (!within.empty()) spans.push_back({within.front().start, within.back().end});
  }
  return trace::unite(std::move(spans));
}

Intervals optimizer_phases(const trace::Trace& trace) {
  Intervals phases;
  for (const trace::TraceEvent& event : trace.events)
    if (event.kind == trace::EventKind::region && event.region.kind == trace::TraceRegionLevel::phase &&
        event.region.pass == trace::Pass::optimizer)
      phases.push_back({event.start_ns, event.end_ns});
  return trace::unite(std::move(phases));
}

struct Gaps {
  Intervals all;
  bool in_optimizer = false;  // most of them
};

Gaps find_gaps(const TrialTraceMeasurementAndPlan& subject) {
  Gaps gaps{trace::intersect(subject.breakdown.idle, active(subject))};
  const int64_t in_optimizer = trace::total(trace::intersect(gaps.all, optimizer_phases(subject.trace)));
  gaps.in_optimizer = 2 * in_optimizer > trace::total(gaps.all);
  return gaps;
}

// What the device waits for the host in a measured step. Tracing slows the host down, so the gaps are longer than in a
// measured step, but what the device does takes as long.
double host_wait_ms(const TrialTraceMeasurementAndPlan& subject, const Gaps& gaps) {
  const trace::StepDeviceTimeBreakdown& breakdown = subject.breakdown;
  int64_t busy_ns = 0;
  for (const Intervals* set :
       {&breakdown.compute, &breakdown.in, &breakdown.out, &breakdown.collectives, &breakdown.wait})
    busy_ns += trace::total(*set);
  const double ms =
      std::min(subject.per_step_ms(trace::total(gaps.all)), subject.step_ms - subject.per_step_ms(busy_ns));
  const result::StepTimeStats& measured = subject.measurement.step_ms;
  const double noise = measured.median > 0 ? kSpreads * result::spread(measured) : 0;
  return !gaps.in_optimizer && subject.share_of_step(ms) >= std::max(kHostBound, noise) ? ms : 0;
}

// Time in the parts of the model, with backward and recomputation, in the traced steps.
struct PartTimes {
  std::map<int32_t, int64_t> blocks_ns;  // by number
  std::map<int32_t, std::string> names;
  int64_t before_ns = 0, head_ns = 0;
};

PartTimes part_times(const trace::Trace& trace) {
  PartTimes times;
  for (const trace::TraceEvent& event : trace.events) {
    if (event.kind != trace::EventKind::region || !trace.counts(event)) continue;
    const int64_t ns = event.end_ns - event.start_ns;
    if (event.region.kind == trace::TraceRegionLevel::before_blocks) times.before_ns += ns;
    if (event.region.kind == trace::TraceRegionLevel::head) times.head_ns += ns;
    if (event.region.kind != trace::TraceRegionLevel::block) continue;
    times.blocks_ns[event.region.block] += ns;
    if (event.region.pass == trace::Pass::forward) times.names[event.region.block] = trace.names[event.name];
  }
  return times;
}

}  // namespace

std::optional<Finding> block_times(const TrialTraceMeasurementAndPlan& subject) {
  const PartTimes times = part_times(subject.trace);
  if (times.blocks_ns.size() < 2) return {};
  int64_t step_ns = 0, blocks_ns = 0;
  for (const TimeInterval& step : subject.steps) step_ns += step.end - step.start;
  for (const auto& [block, ns] : times.blocks_ns) blocks_ns += ns;
  const auto percent = [&](int64_t ns, int digits) {
    return fixed(100 * static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, step_ns)), digits);
  };
  const auto [least, most] =
      std::ranges::minmax_element(times.blocks_ns, {}, [](const auto& each) { return each.second; });
  const std::string low = percent(least->second, 1), high = percent(most->second, 1);
  const auto name = times.names.find(most->first);
  Finding finding = subject.costs(
      "block-times", 0,
      std::to_string(times.blocks_ns.size()) + " blocks take " + percent(blocks_ns, 0) + " % of a step, " +
          (low == high
               ? low + " % each"
               : low + " to " + high + " % each" + (name == times.names.end() ? "" : " (most: " + name->second + ")")) +
          "; before them " + percent(times.before_ns, 1) + " %, the head " + percent(times.head_ns, 1) + " %",
      "");
  finding.severity = Severity::note;
  return finding;
}

std::optional<Finding> host_bound(const TrialTraceMeasurementAndPlan& subject) {
  const Gaps gaps = find_gaps(subject);
  const double ms = host_wait_ms(subject, gaps);
  if (ms <= 0) return {};
  Finding finding = subject.costs(
      "host-bound", ms,
      "the device waits for the host for " + ms_text(ms) + " a step, " + fixed(100 * subject.share_of_step(ms), 0) +
          " % of it: its ops are shorter than what the host takes to issue them",
      "a larger --batch costs little time until the device is busy; in your own loop, torch.compile or CUDA graphs "
      "issue fewer ops");
  finding.evidence = subject.evidence(gaps.all, trace::EventKind::op);
  return finding;
}

std::optional<Finding> device_idle(const TrialTraceMeasurementAndPlan& subject) {
  const Gaps found = find_gaps(subject);
  const auto& [gaps, updates] = found;
  const double ms = subject.per_step_ms(trace::total(gaps));
  if (gaps.empty() || subject.share_of_step(ms) < kIdle || host_wait_ms(subject, found) > 0) return {};
  Finding finding =
      subject.costs("device-idle", ms,
                    "the device is idle for " + ms_text(ms) + " a step, in " +
                        std::to_string(gaps.size() / std::max<size_t>(1, subject.steps.size())) + " gaps" +
                        (updates ? ", most of it in the optimizer" : ""),
                    updates ? "the device waits while the CPU runs or launches the update: fewer updates "
                              "(--accumulate), and --shard-offload only if memory requires it"
                            : "the CPU launches ops too slowly: a larger --batch, or fewer and larger ops");
  finding.evidence = subject.evidence(gaps, trace::EventKind::op);
  return finding;
}

std::optional<Finding> collectives_exposed(const TrialTraceMeasurementAndPlan& subject) {
  const Intervals& alone = subject.breakdown.collectives;
  const double ms = subject.per_step_ms(trace::total(alone));
  if (subject.share_of_step(ms) < kSignificantShare) return {};
  Finding finding =
      subject.costs("collectives-exposed", ms,
                    "collectives exposed " + ms_text(ms) + " a step: gathered or reduced, or waited for a rank",
                    "more work per rank (a larger --batch), or --reshard after-backward if memory allows");
  finding.evidence = subject.evidence(alone, trace::EventKind::collective);
  return finding;
}

std::optional<Finding> records_lost(const TrialTraceMeasurementAndPlan& subject) {
  if (subject.trace.lost_records <= 0) return {};
  const double all = static_cast<double>(subject.trace.events.size()) + static_cast<double>(subject.trace.lost_records);
  return doubt(subject, "records-lost", static_cast<double>(subject.trace.lost_records) / all,
               "the profiler lost " + std::to_string(subject.trace.lost_records) +
                   " records: idle and exposed time may be wrong",
               "trace fewer steps");
}

std::optional<Finding> steps_vary(const TrialTraceMeasurementAndPlan& subject) {
  if (!subject.measurement.noisy) return {};
  const double spread = result::spread(subject.measurement.step_ms);
  return doubt(subject, "steps-vary", spread, "steps vary by " + fixed(100 * spread, 0) + " %",
               "more --steps, and nothing else on the machine");
}

std::optional<Finding> profiler_slows(const TrialTraceMeasurementAndPlan& subject) {
  const double overhead = subject.measurement.profiler_overhead;
  if (overhead < kOverhead) return {};
  return doubt(subject, "profiler-slows", overhead,
               "traced steps took " + fixed(100 * overhead, 0) + " % longer than measured ones",
               "the times here are longer than those of the table");
}

}  // namespace memtune::findings
