#include "core/record/trace/resident_values.h"

#include <algorithm>
#include <map>

namespace memtune::trace {
namespace {

// An event that may change whether an activation is resident.
struct Change {
  int64_t time_ns = 0;
  EventKind kind = EventKind::save;
};

// Start times of kernels, or of host ops in a trace without kernels. A save is recorded when the saving op starts; the
// op that created the activation is the last one that started before.
class Clock {
 public:
  explicit Clock(const Trace& trace) {
    const auto collect = [&](EventKind kind) {
      for (const TraceEvent& event : trace.events)
        if (event.kind == kind) starts_ns_.push_back(event.start_ns);
    };
    collect(EventKind::kernel);
    has_kernels = !starts_ns_.empty();
    if (!has_kernels) collect(EventKind::op);
    std::ranges::sort(starts_ns_);
  }

  int64_t start_before(int64_t time_ns) const {
    const auto next = std::ranges::lower_bound(starts_ns_, time_ns);
    return next == starts_ns_.begin() ? time_ns : *(next - 1);
  }

  bool has_kernels = false;

 private:
  std::vector<int64_t> starts_ns_;
};

std::vector<std::vector<Change>> changes_of(const Trace& trace) {
  const Clock clock(trace);
  std::vector<std::vector<Change>> changes(trace.values.size());
  for (const TraceEvent& event : trace.events) {
    if (!event.value) continue;
    std::vector<Change>& own = changes[event.value.index()];
    const bool made_again = event.kind == (clock.has_kernels ? EventKind::kernel : EventKind::op);
    if (event.kind == EventKind::save) own.push_back({clock.start_before(event.start_ns), event.kind});
    if (event.kind == EventKind::copy_out) own.push_back({event.end_ns, event.kind});
    if (event.kind == EventKind::copy_in || event.kind == EventKind::use || made_again)
      own.push_back({event.start_ns, event.kind});
  }
  for (std::vector<Change>& own : changes) std::ranges::stable_sort(own, {}, &Change::time_ns);
  return changes;
}

// Whether a use is the next change of another kind than changes[i].
bool is_awaited(const std::vector<Change>& changes, size_t i) {
  const EventKind kind = changes[i].kind;
  while (i < changes.size() && changes[i].kind == kind) ++i;
  return i < changes.size() && changes[i].kind == EventKind::use;
}

// Consecutive copies are pieces of one activation. It is needed until the last of consecutive uses. A recomputation
// without a later use served the use just before it; the result is freed at once.
bool is_held(const std::vector<Change>& changes, bool recomputed, int64_t time_ns) {
  bool held = false, left = false;
  for (size_t i = 0; i < changes.size() && changes[i].time_ns <= time_ns; ++i) {
    const EventKind kind = changes[i].kind;
    const bool last = i + 1 == changes.size() || changes[i + 1].kind != kind;
    if (kind == EventKind::save)
      held = held || (!recomputed && !left);
    else if (kind == EventKind::copy_out)
      held = !last;
    else if (kind == EventKind::use)
      held = held && (!last || changes[i].time_ns == time_ns);
    else if (i == 0 || changes[i - 1].kind != kind)
      held = is_awaited(changes, i);
    left = kind == EventKind::copy_out || (left && kind == EventKind::save);
  }
  return held;
}

}  // namespace

std::string family(const TracedActivationPlacement& value) {
  std::string name = value.name;
  if (value.block != kNoBlock && name.starts_with(value.region))
    name = family(MemoryOwner{MemoryOwnerKind::block, value.region, value.block}) + name.substr(value.region.size());
  const size_t slash = name.find('/'), colons = name.find("::", slash);
  if (slash != std::string::npos && colons != std::string::npos) name.replace(slash, colons + 2 - slash, " ");
  return name;
}

std::vector<ResidentActivationTotalsOfOp> held_values(const Trace& trace, int64_t time_ns) {
  std::map<std::string, ResidentActivationTotalsOfOp> by_name;
  const std::vector<std::vector<Change>> changes = changes_of(trace);
  for (size_t i = 0; i < trace.values.size(); ++i) {
    const TracedActivationPlacement& value = trace.values[i];
    if (value.bytes <= 0 || !is_held(changes[i], value.placement == "recompute", time_ns)) continue;
    ResidentActivationTotalsOfOp& held = by_name[family(value)];
    ++held.count;
    held.bytes += value.bytes;
  }
  std::vector<ResidentActivationTotalsOfOp> sorted;
  for (auto& [name, held] : by_name) sorted.push_back({name, held.count, held.bytes});
  std::ranges::stable_sort(sorted, std::ranges::greater(), &ResidentActivationTotalsOfOp::bytes);
  return sorted;
}

}  // namespace memtune::trace
