#include <algorithm>

#include "core/answer/findings/finding_rules.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::findings {
namespace {

using trace::EventKind;
using trace::Intervals;
using trace::TimeInterval;
using trace::TraceEvent;

constexpr int64_t kPage = 4096;
constexpr int64_t kOwnBytes = int64_t{1} << 20;    // per step: the model's own copies, such as its loss
constexpr int64_t kSmallBytes = int64_t{4} << 20;  // per copy
constexpr double kLinkBusy = 0.9, kLinkOfStep = 0.3, kSmallRate = 0.6, kDirectionRate = 0.8;

std::string rate_text(double gb_per_s) { return fixed(gb_per_s, 1) + " GB/s"; }

const char* direction(EventKind kind) { return kind == EventKind::copy_out ? "out" : "in"; }

double link_rate(const TrialTraceMeasurementAndPlan& subject, EventKind kind) {
  const result::StepHostDeviceCopyStats& transfer = subject.measurement.transfer;
  return kind == EventKind::copy_out ? transfer.link_out_gb_per_s : transfer.link_in_gb_per_s;
}

// Nanoseconds at `gb_per_s`, which is bytes per nanosecond.
double ns_at(double gb_per_s, int64_t bytes) { return static_cast<double>(bytes) / gb_per_s; }

bool offloads_activations(const TrialTraceMeasurementAndPlan& subject, EventKind kind) {
  if (!subject.offloads_values()) return false;
  int64_t bytes = 0;
  for (const TraceEvent& event : subject.trace.events)
    bytes += event.kind == kind && subject.trace.counts(event) ? event.bytes : 0;
  return bytes / static_cast<int64_t>(std::max<size_t>(1, subject.steps.size())) >= kOwnBytes;
}

// The copies of this direction fill the time from a step's first to its last, and much of the step. To start earlier
// would not help.
bool link_is_the_limit(const TrialTraceMeasurementAndPlan& subject, const Intervals& copies) {
  int64_t span = 0, busy = 0;
  for (const TimeInterval& step : subject.steps) {
    const Intervals within = trace::intersect(copies, {step});
    if (!within.empty()) span += within.back().end - within.front().start;
    busy += trace::total(within);
  }
  return static_cast<double>(busy) >= kLinkBusy * static_cast<double>(span) &&
         subject.share_of_step(subject.per_step_ms(busy)) >= kLinkOfStep;
}

// Only copies of at least a page. Smaller ones are no offload, such as the loss at the end of every step.
Intervals time_of_kind(const TrialTraceMeasurementAndPlan& subject, EventKind kind) {
  return trace::time_of(subject.trace, [&](const TraceEvent& event) {
    return event.kind == kind && (event.bytes >= kPage || kind == EventKind::wait);
  });
}

AdviceTextAndStrategy offload_less(const TrialTraceMeasurementAndPlan& subject, const Intervals& copies,
                                   double late_ms) {
  const double busy_ms = subject.per_step_ms(trace::total(copies));
  AdviceTextAndStrategy advice = subject.tunables.offload_less(1 - late_ms / busy_ms);
  advice.text = "PCIe bandwidth is the limit; " + advice.text;
  return advice;
}

// The block, or the region outside of blocks, with the most late time, and its share of it. 0 if the copies have no
// values.
struct Lateness {
  int32_t block = trace::kNoBlock;
  std::string region;
  double share = 0;
};
Lateness latest_region(const TrialTraceMeasurementAndPlan& subject, const Intervals& late, EventKind kind) {
  std::vector<std::pair<const trace::TracedActivationPlacement*, int64_t>> regions;  // identified by their first value
  int64_t all = 0;
  for (const TraceEvent& event : subject.trace.events) {
    if (event.kind != kind || !event.value || !subject.trace.counts(event)) continue;
    const int64_t ns = trace::time_within(event, late);
    const trace::TracedActivationPlacement& value = subject.trace.value(event.value);
    const auto same = [&](const auto& region) {
      return region.first->block == value.block && region.first->region == value.region;
    };
    auto found = std::ranges::find_if(regions, same);
    if (found == regions.end()) found = regions.insert(found, {&value, 0});
    found->second += ns;
    all += ns;
  }
  if (all == 0) return {};
  const auto [value, ns] = *std::ranges::max_element(regions, {}, [](const auto& region) { return region.second; });
  return {value->block, value->region, static_cast<double>(ns) / static_cast<double>(all)};
}

// The block whose activations are saved last: backward needs them first. Regions after the blocks do not count.
int32_t last_block(const trace::Trace& trace) {
  int32_t last = trace::kNoBlock;
  for (const trace::TracedActivationPlacement& value : trace.values) last = std::max(last, value.block);
  return last;
}

AdviceTextAndStrategy advice_for_late_in(const TrialTraceMeasurementAndPlan& subject, const Lateness& where,
                                         double late_ms) {
  const Intervals copies = time_of_kind(subject, EventKind::copy_in);
  if (link_is_the_limit(subject, copies)) return offload_less(subject, copies, late_ms);
  const bool in_block = where.block != trace::kNoBlock;
  if (where.share >= 0.5 && in_block && where.block == last_block(subject.trace)) return subject.tunables.keep_last();
  return subject.tunables.deeper_prefetch();
}

std::optional<Finding> slow(const TrialTraceMeasurementAndPlan& subject, EventKind kind) {
  const double link = link_rate(subject, kind);
  if (link <= 0 || !offloads_activations(subject, kind)) return {};
  int64_t bytes = 0;
  const Intervals time = trace::time_of(subject.trace, [&](const TraceEvent& event) {
    const bool counts = event.kind == kind && event.bytes >= kSmallBytes && !event.pageable;
    bytes += counts ? event.bytes : 0;
    return counts;
  });
  const auto ns = static_cast<double>(trace::total(time));
  if (ns <= 0 || static_cast<double>(bytes) / ns >= kDirectionRate * link) return {};
  const double rate = static_cast<double>(bytes) / ns;
  const double lost_ms = subject.per_step_ms(static_cast<int64_t>(ns - ns_at(link, bytes)));
  Finding finding = subject.costs(kind == EventKind::copy_out ? "copies-out-slow" : "copies-in-slow", lost_ms,
                                  std::string("copies ") + direction(kind) + " run at " + rate_text(rate) +
                                      ", idle PCIe reaches " + rate_text(link),
                                  "memtune doctor shows what else uses PCIe and host memory");
  finding.severity = Severity::advice;  // it may overlap compute
  finding.evidence = subject.evidence(time, kind);
  return finding;
}

}  // namespace

std::optional<Finding> copies_in_late(const TrialTraceMeasurementAndPlan& subject) {
  const Intervals& late = subject.breakdown.in;
  const double ms = subject.per_step_ms(trace::total(late));
  if (subject.share_of_step(ms) < kSignificantShare || !offloads_activations(subject, EventKind::copy_in)) return {};
  const Lateness where = latest_region(subject, late, EventKind::copy_in);
  std::string what = "copies in exposed " + ms_text(ms) + " a step";
  if (where.share >= 0.5 && !where.region.empty()) what += ", most of it for " + where.region;
  Finding finding = subject.costs("copies-in-late", ms, std::move(what), advice_for_late_in(subject, where, ms));
  finding.evidence = subject.evidence(late, EventKind::copy_in);
  return finding;
}

std::optional<Finding> copies_out_late(const TrialTraceMeasurementAndPlan& subject) {
  const Intervals& late = subject.breakdown.out;
  const double ms = subject.per_step_ms(trace::total(late));
  if (subject.share_of_step(ms) < kSignificantShare || !offloads_activations(subject, EventKind::copy_out)) return {};
  const Intervals copies = time_of_kind(subject, EventKind::copy_out);
  const bool limit = link_is_the_limit(subject, copies);
  Finding finding = subject.costs("copies-out-late", ms, "copies out exposed " + ms_text(ms) + " a step",
                                  limit ? offload_less(subject, copies, ms) : subject.tunables.larger_stash());
  finding.evidence = subject.evidence(late, EventKind::copy_out);
  return finding;
}

std::optional<Finding> waits(const TrialTraceMeasurementAndPlan& subject) {
  const Intervals recorded = time_of_kind(subject, EventKind::wait);
  const Intervals alone = trace::intersect(subject.breakdown.wait, recorded);
  const double ms = subject.per_step_ms(trace::total(alone));
  if (subject.share_of_step(ms) < kSignificantShare || !subject.offloads_values()) return {};
  const Intervals reads =
      trace::time_of(subject.trace, [](const TraceEvent& event) { return event.kind == EventKind::disk_read; });
  const bool for_disk = 2 * trace::total(trace::intersect(alone, reads)) >= trace::total(alone);
  Finding finding = subject.costs(
      "waits", ms,
      "compute waits " + ms_text(ms) + " a step while nothing is copied" + (for_disk ? ", for disk reads" : ""),
      for_disk ? AdviceTextAndStrategy("a faster --scratch, or a larger --host-budget")
               : subject.tunables.deeper_prefetch());
  finding.evidence = subject.evidence(alone, EventKind::wait);
  return finding;
}

std::optional<Finding> small_copies(const TrialTraceMeasurementAndPlan& subject) {
  std::vector<TimeInterval> slow;
  double lost_ns = 0;
  int64_t bytes = 0, ns = 0;
  for (const TraceEvent& event : subject.trace.events) {
    const bool copy = event.kind == EventKind::copy_out || event.kind == EventKind::copy_in;
    if (!copy || !subject.trace.counts(event)) continue;
    if (event.bytes <= 0 || event.bytes >= kSmallBytes || event.pageable) continue;
    const double at_link = ns_at(std::max(1e-9, link_rate(subject, event.kind)), event.bytes);
    const auto took = static_cast<double>(event.end_ns - event.start_ns);
    if (at_link >= kSmallRate * took) continue;
    lost_ns += took - at_link;
    bytes += event.bytes;
    ns += event.end_ns - event.start_ns;
    slow.push_back({event.start_ns, event.end_ns});
  }
  const double ms = subject.per_step_ms(static_cast<int64_t>(lost_ns));
  if (slow.empty() || subject.share_of_step(ms) < kSignificantShare || !subject.offloads_values()) return {};
  const size_t count = slow.size() / std::max<size_t>(1, subject.steps.size());
  Finding finding = subject.costs("copies-small", ms,
                                  std::to_string(count) + " small copies a step run at " +
                                      rate_text(static_cast<double>(bytes) / static_cast<double>(ns)),
                                  subject.tunables.keep_small(kSmallBytes));
  finding.severity = Severity::advice;  // it may overlap compute
  const Intervals united = trace::unite(slow);
  finding.evidence = subject.evidence(united, EventKind::copy_out);
  if (finding.evidence.events.empty()) finding.evidence = subject.evidence(united, EventKind::copy_in);
  return finding;
}

std::optional<Finding> slow_out(const TrialTraceMeasurementAndPlan& subject) {
  return slow(subject, EventKind::copy_out);
}
std::optional<Finding> slow_in(const TrialTraceMeasurementAndPlan& subject) {
  return slow(subject, EventKind::copy_in);
}

std::optional<Finding> pageable_copies(const TrialTraceMeasurementAndPlan& subject) {
  int64_t bytes = 0;
  const Intervals time = trace::time_of(subject.trace, [&](const TraceEvent& event) {
    const bool copy = event.kind == EventKind::copy_out || event.kind == EventKind::copy_in;
    const bool counts = copy && event.pageable;
    bytes += counts ? event.bytes : 0;
    return counts;
  });
  const int64_t a_step = bytes / static_cast<int64_t>(std::max<size_t>(1, subject.steps.size()));
  if (a_step < kOwnBytes) return {};
  Finding finding =
      subject.costs("copies-pageable", subject.per_step_ms(trace::total(time)),
                    format_bytes(a_step) + " a step are copied through pageable memory", subject.tunables.pinned());
  finding.severity = Severity::advice;  // it may overlap compute
  finding.bytes = a_step;
  finding.evidence = subject.evidence(time, EventKind::copy_in);
  if (finding.evidence.events.empty()) finding.evidence = subject.evidence(time, EventKind::copy_out);
  return finding;
}

}  // namespace memtune::findings
