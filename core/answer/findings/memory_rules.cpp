#include <algorithm>
#include <map>

#include "core/answer/findings/finding_rules.h"
#include "core/base/allocator_settings.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::findings {
namespace {

using trace::EventKind;
using trace::MemoryOwnerKind;
using trace::TraceEvent;

constexpr double kUnused = 0.1;    // of the budget
constexpr double kInPieces = 0.1;  // of the reserved memory
constexpr int64_t kLargePieces = 1 << 30;

struct Holder {
  MemoryOwnerKind kind = MemoryOwnerKind::work_space;
  std::string name = "the work space of ops";
  int64_t bytes = 0;
  int members = 1;  // blocks whose names differ only in numbers are one holder: "layers.*"
};

Holder largest_holder(const trace::Trace& trace, const trace::AllocatedBytesSample& peak) {
  std::vector<int64_t> held(trace.owners.size());
  for (const trace::OwnerMemorySample& sample : trace.owned) {
    if (sample.time_ns <= peak.time_ns) held[sample.owner] = sample.bytes;
  }
  Holder largest{.bytes = peak.allocated_bytes};
  std::map<std::pair<MemoryOwnerKind, std::string>, Holder> holders;
  for (size_t i = 0; i < held.size(); ++i) {
    largest.bytes -= held[i];
    if (held[i] == 0) continue;
    const trace::MemoryOwner& owner = trace.owners[i];
    const std::string name = trace::family(owner);
    const auto [found, first] = holders.try_emplace({owner.kind, name}, Holder{owner.kind, owner.name, held[i]});
    Holder& holder = found->second;
    if (!first) holder = {owner.kind, name, holder.bytes + held[i], holder.members + 1};
  }
  for (const auto& [key, holder] : holders)
    if (holder.bytes > largest.bytes) largest = holder;
  return largest;
}

// Only the `plain` loss runs that op. The trace does not show which loss it was.
AdviceTextAndStrategy advice_for_head(const trace::Trace& trace, const TraceEvent* at) {
  const bool in_head = at && at->region.kind == trace::TraceRegionLevel::head;
  if (!in_head || std::ranges::find(trace.names, "aten::cross_entropy_loss") == trace.names.end()) return "";
  return "with the loss causal_lm or next_token, --loss-impl fused (or chunked=N) never holds the whole logits";
}

AdviceTextAndStrategy advice_for_holder(const TrialTraceMeasurementAndPlan& subject, const Holder& holder,
                                        const TraceEvent* at) {
  switch (holder.kind) {
    case MemoryOwnerKind::parameters:
    case MemoryOwnerKind::gradients: return "states=host keeps that in CPU memory; a smaller --dtype shrinks it";
    case MemoryOwnerKind::optimizer:
      return "states=host or --optimizer paged_adamw_8bit keeps that in CPU memory, --optimizer adamw_8bit shrinks it";
    case MemoryOwnerKind::outside: return subject.tunables.offload_head();
    case MemoryOwnerKind::block:
      return holder.members > 1 ? "recompute or offload more of their activations"
                                : "recompute or offload more of this block's activations";
    case MemoryOwnerKind::inputs:
    case MemoryOwnerKind::prefetched: break;
    case MemoryOwnerKind::work_space: return advice_for_head(subject.trace, at);
  }
  return "";
}

// If memory is unused: offload fewer bytes, or recompute less.
AdviceTextAndStrategy do_less(const TrialTraceMeasurementAndPlan& subject, int64_t unused) {
  const int64_t moved = subject.measurement.transfer.out_bytes;
  if (!subject.tunables.offloads() || moved <= 0) return subject.tunables.recompute_less();
  return subject.tunables.offload_less(1 - static_cast<double>(unused) / static_cast<double>(moved));
}

int64_t recomputed_bytes(const trace::Trace& trace) {
  int64_t bytes = 0;
  for (const trace::TracedActivationPlacement& value : trace.values)
    bytes += value.placement == "recompute" ? value.bytes : 0;
  return bytes;
}

}  // namespace

std::optional<Finding> peak_owner(const TrialTraceMeasurementAndPlan& subject) {
  const trace::Trace& trace = subject.trace;
  if (trace.memory.empty() || trace.owned.empty()) return {};
  const trace::AllocatedBytesSample peak =
      *std::ranges::max_element(trace.memory, {}, &trace::AllocatedBytesSample::allocated_bytes);
  const Holder holder = largest_holder(trace, peak);
  if (holder.bytes <= 0) return {};
  const TraceEvent* at = trace::region_at(trace, peak.time_ns);
  const std::string region = at ? trace.names[at->name] : "";
  const double percent = 100 * static_cast<double>(holder.bytes) / static_cast<double>(peak.allocated_bytes);
  Finding finding = subject.concerns(
      "peak-owner", holder.bytes,
      "the peak of " + format_bytes(peak.allocated_bytes) + (region.empty() ? "" : " is in " + region) + "; " +
          holder.name + (holder.members > 1 ? " hold " : " holds ") + fixed(percent, 0) + " % of it",
      subject.measurement.memory ? AdviceTextAndStrategy("") : advice_for_holder(subject, holder, at));
  finding.severity = Severity::note;
  finding.evidence.start_ns = finding.evidence.end_ns = peak.time_ns;
  return finding;
}

std::optional<Finding> budget_unused(const TrialTraceMeasurementAndPlan& subject) {
  const int64_t budget = subject.trace.budget_bytes, peak = subject.peak_bytes;
  const bool pays = subject.measurement.recomputed_ops > 0 || subject.measurement.transfer.out_bytes > 0;
  if (budget <= 0 || peak <= 0 || !pays) return {};
  const int64_t unused = budget - std::max(peak, required_bytes(subject.measurement));
  if (static_cast<double>(unused) < kUnused * static_cast<double>(budget)) return {};
  return subject.concerns("budget-unused", unused,
                          format_bytes(unused) + " of the budget of " + format_bytes(budget) + " are never used",
                          do_less(subject, unused));
}

std::optional<Finding> fragmentation(const TrialTraceMeasurementAndPlan& subject) {
  const result::PeakMemory& peak = subject.measurement.peak_bytes;
  const int64_t free = peak.reserved - peak.allocated;
  if (peak.device == 0 || free < kLargePieces ||
      static_cast<double>(free) < kInPieces * static_cast<double>(peak.reserved))
    return {};
  const bool grows = !subject.measurement.allocator.empty();
  return subject.concerns(
      "fragmentation", free,
      "PyTorch's allocator reserves " + format_bytes(peak.reserved) + " for the " + format_bytes(peak.allocated) +
          " that tensors hold at the peak",
      grows ? ""
            : std::string(kAllocatorVariable) + "=" + kExpandableSegments + " changes no result, and may reserve less");
}

std::optional<Finding> host_memory_full(const TrialTraceMeasurementAndPlan& subject) {
  const double ms = subject.measurement.stalls.room_ms;
  if (subject.share_of_step(ms) < kSignificantShare) return {};
  return subject.costs("host-memory-full", ms,
                       "host memory is full: " + ms_text(ms) + " a step waiting for writes to disk",
                       "a larger --host-budget, or a faster --scratch");
}

std::optional<Finding> disk_late(const TrialTraceMeasurementAndPlan& subject) {
  const double ms = subject.measurement.stalls.disk_ms;
  if (subject.share_of_step(ms) < kSignificantShare) return {};
  const trace::Intervals reads =
      trace::time_of(subject.trace, [](const TraceEvent& event) { return event.kind == EventKind::disk_read; });
  AdviceTextAndStrategy advice = subject.tunables.deeper_prefetch();
  advice.text = "a larger --host-budget, or " + advice.text;
  Finding finding =
      subject.costs("disk-late", ms, "disk reads are late by " + ms_text(ms) + " a step", std::move(advice));
  if (!reads.empty()) finding.evidence = subject.evidence(reads, EventKind::disk_read);
  return finding;
}

std::optional<Finding> recompute_expensive(const TrialTraceMeasurementAndPlan& subject) {
  const result::StepHostDeviceCopyStats& transfer = subject.measurement.transfer;
  const double ms = subject.measurement.recompute_ms;
  const auto bytes = static_cast<double>(recomputed_bytes(subject.trace));
  if (subject.share_of_step(ms) < kSignificantShare || bytes <= 0) return {};
  if (transfer.link_out_gb_per_s <= 0 || transfer.link_in_gb_per_s <= 0) return {};
  const double moved_ms = (bytes / transfer.link_out_gb_per_s + bytes / transfer.link_in_gb_per_s) / 1e6;
  if (ms <= moved_ms) return {};
  Finding finding =
      subject.costs("recompute-dear", ms - moved_ms,
                    "recompute takes " + ms_text(ms) + " a step for " + format_bytes(static_cast<int64_t>(bytes)) +
                        " that offloading copies in " + ms_text(moved_ms),
                    "offload them to CPU");
  finding.bytes = static_cast<int64_t>(bytes);
  const trace::Intervals reruns = trace::time_of(subject.trace, [&](const TraceEvent& event) {
    return event.region.kind != trace::TraceRegionLevel::none && event.region.pass == trace::Pass::recompute;
  });
  if (!reruns.empty()) finding.evidence = subject.evidence(reruns, EventKind::region);
  return finding;
}

}  // namespace memtune::findings
