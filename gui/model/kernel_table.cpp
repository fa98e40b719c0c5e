#include "gui/model/kernel_table.h"

#include <algorithm>
#include <map>

namespace memtune::gui {
namespace {

using trace::EventKind;
using trace::Trace;
using trace::TraceEvent;
using trace::TraceRegionLevel;

constexpr int kMaxNested = 64;  // regions that are searched for the innermost one around a moment

bool counts(const Trace& trace, const TraceEvent& event) {
  return trace.measured_rank < 0 || trace.tracks[event.track].rank == trace.measured_rank;
}

// The regions of the model on the device's timeline, in order of their start.
std::vector<const TraceEvent*> modules_of(const Trace& trace) {
  std::vector<const TraceEvent*> modules;
  for (const TraceEvent& event : trace.events) {
    const TraceRegionLevel kind = event.region.kind;
    const bool part =
        kind == TraceRegionLevel::block || kind == TraceRegionLevel::before_blocks || kind == TraceRegionLevel::head;
    if (event.kind == EventKind::region && part && counts(trace, event) && on_device(trace.tracks[event.track].role))
      modules.push_back(&event);
  }
  std::ranges::stable_sort(modules, {}, [](const TraceEvent* event) { return event->start_ns; });
  return modules;
}

// "layers.*" around a moment; "" if no module is known there.
std::string module_at(const Trace& trace, const std::vector<const TraceEvent*>& modules, int64_t time_ns) {
  auto next = std::ranges::upper_bound(modules, time_ns, {}, [](const TraceEvent* event) { return event->start_ns; });
  for (int i = 0; i < kMaxNested && next != modules.begin(); ++i) {
    const TraceEvent& event = **--next;
    if (event.end_ns < time_ns) continue;
    const std::string& name = trace.names[event.name];
    if (event.region.kind != TraceRegionLevel::block) return name;
    return trace::family(trace::MemoryOwner{trace::MemoryOwnerKind::block, name, event.region.block});
  }
  return "";
}

void add(KernelSum& sum, int64_t ns) {
  ++sum.count;
  sum.ns += ns;
}

template <class Key>
std::vector<KernelSum> longest_first(const std::map<Key, KernelSum>& sums) {
  std::vector<KernelSum> sorted;
  for (const auto& [key, sum] : sums) sorted.push_back(sum);
  std::ranges::stable_sort(sorted, {}, [](const KernelSum& sum) { return -sum.ns; });
  return sorted;
}

}  // namespace

KernelTable kernels_between(const Trace& trace, trace::TimeInterval range) {
  KernelTable table{range, 0, {}, {}};
  const std::vector<const TraceEvent*> regions = modules_of(trace);
  std::map<uint32_t, KernelSum> kernels;
  std::map<std::string, KernelSum> modules;
  for (const TraceEvent& event : trace.events) {
    if (event.kind != EventKind::kernel || !counts(trace, event)) continue;
    const int64_t ns = std::min(event.end_ns, range.end) - std::max(event.start_ns, range.start);
    if (ns <= 0) continue;
    const std::string module = module_at(trace, regions, event.start_ns + (event.end_ns - event.start_ns) / 2);
    KernelSum& kernel = kernels[event.name];
    kernel.module = kernel.count == 0 || kernel.module == module ? module : "several";
    kernel.name = trace.names[event.name];
    add(kernel, ns);
    KernelSum& of_module = modules[module];
    of_module.name = module.empty() ? "outside of modules" : module;
    add(of_module, ns);
    table.total_ns += ns;
  }
  table.kernels = longest_first(kernels);
  table.modules = longest_first(modules);
  return table;
}

std::optional<trace::TimeInterval> chosen_range(const ViewState& view, const Trace& trace) {
  if (view.marks.size() == 2 && view.marks[0] != view.marks[1])
    return trace::TimeInterval{std::min(view.marks[0], view.marks[1]), std::max(view.marks[0], view.marks[1])};
  if (!view.event || trace.events[*view.event].kind != EventKind::region) return std::nullopt;
  return trace::TimeInterval{trace.events[*view.event].start_ns, trace.events[*view.event].end_ns};
}

}  // namespace memtune::gui
