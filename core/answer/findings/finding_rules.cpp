#include "core/answer/findings/finding_rules.h"

#include <algorithm>
#include <set>

namespace memtune::findings {
namespace {

constexpr size_t kEventsShown = 16;

constexpr Rule kRules[] = {
    copies_in_late,      copies_out_late,     waits,         small_copies,  slow_out,         slow_in,
    pageable_copies,     peak_owner,          budget_unused, fragmentation, host_memory_full, disk_late,
    recompute_expensive, collectives_exposed, host_bound,    device_idle,   block_times,      records_lost,
    steps_vary,          profiler_slows};

int64_t peak_of(const trace::Trace& trace, const result::TrialMeasurement& measurement) {
  if (measurement.peak_bytes.allocated > 0 || trace.memory.empty()) return measurement.peak_bytes.allocated;
  return std::ranges::max(trace.memory, {}, &trace::AllocatedBytesSample::allocated_bytes).allocated_bytes;
}

double step_of(const result::TrialMeasurement& measurement, const std::vector<trace::TimeInterval>& steps) {
  if (measurement.step_ms.median > 0 || steps.empty()) return measurement.step_ms.median;
  int64_t ns = 0;
  for (const trace::TimeInterval& step : steps) ns += step.end - step.start;
  return static_cast<double>(ns) / 1e6 / static_cast<double>(steps.size());
}

int count_blocks(const trace::Trace& trace) {
  std::set<int32_t> blocks;
  for (const trace::TracedActivationPlacement& value : trace.values)
    if (value.block != trace::kNoBlock) blocks.insert(value.block);
  return static_cast<int>(blocks.size());
}

}  // namespace

TrialTraceMeasurementAndPlan::TrialTraceMeasurementAndPlan(const trace::Trace& trace,
                                                           const result::TrialMeasurement& measurement,
                                                           const plan::Plan* plan)
    : trace(trace),
      measurement(measurement),
      plan(plan),
      tunables(plan ? plan->strategy : measurement.strategy, plan, count_blocks(trace)),
      steps(trace::find_steps(trace)),
      breakdown(trace::find_step_time_breakdown(trace, steps)),
      peak_bytes(peak_of(trace, measurement)),
      step_ms(step_of(measurement, steps)) {}

bool TrialTraceMeasurementAndPlan::offloads_values() const {
  const result::StepHostDeviceCopyStats& transfer = measurement.transfer;
  const auto is_copy = [&](const trace::TraceEvent& event) {
    const bool copy = event.kind == trace::EventKind::copy_out || event.kind == trace::EventKind::copy_in;
    return copy && trace.counts(event);
  };
  if (measurement.step_ms.median > 0) return transfer.out_bytes + transfer.in_bytes > 0;
  return std::ranges::any_of(trace.events, is_copy);
}

double TrialTraceMeasurementAndPlan::per_step_ms(int64_t ns) const {
  return static_cast<double>(ns) / 1e6 / static_cast<double>(std::max<size_t>(1, steps.size()));
}

double TrialTraceMeasurementAndPlan::share_of_step(double ms) const { return step_ms > 0 ? ms / step_ms : 0; }

Finding TrialTraceMeasurementAndPlan::costs(const char* rule, double ms, std::string what,
                                            AdviceTextAndStrategy advice) const {
  Finding finding;
  finding.rule = rule;
  finding.what = std::move(what);
  finding.advice = std::move(advice.text);
  finding.alternative_strategy = std::move(advice.alternative_strategy);
  finding.ms_per_step = ms;
  finding.weight = share_of_step(ms);
  finding.severity = finding.weight >= kSevereShare ? Severity::problem : Severity::advice;
  finding.evidence.strategy = measurement.strategy;
  return finding;
}

Finding TrialTraceMeasurementAndPlan::concerns(const char* rule, int64_t bytes, std::string what,
                                               AdviceTextAndStrategy advice) const {
  Finding finding = costs(rule, 0, std::move(what), std::move(advice));
  finding.bytes = bytes;
  finding.weight = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, peak_bytes));
  return finding;
}

FindingTraceEvidence TrialTraceMeasurementAndPlan::evidence(const trace::Intervals& set, trace::EventKind kind) const {
  FindingTraceEvidence evidence;
  evidence.strategy = measurement.strategy;
  std::vector<std::pair<int64_t, uint32_t>> worst;  // negative time within `set`, so that ties keep the order of events
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events[i].kind != kind || !trace.counts(trace.events[i])) continue;
    if (const int64_t ns = trace::time_within(trace.events[i], set); ns > 0) worst.push_back({-ns, i});
  }
  const size_t shown = std::min(worst.size(), kEventsShown);
  std::partial_sort(worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(shown), worst.end());
  for (size_t i = 0; i < shown; ++i) evidence.events.push_back(worst[i].second);
  if (!set.empty()) {
    const trace::TimeInterval longest = *std::ranges::max_element(
        set, {}, [](const trace::TimeInterval& stretch) { return stretch.end - stretch.start; });
    evidence.start_ns = longest.start;
    evidence.end_ns = longest.end;
  }
  if (shown > 0) evidence.value = trace.events[evidence.events.front()].value;
  return evidence;
}

std::span<const Rule> all_rules() { return kRules; }

}  // namespace memtune::findings
