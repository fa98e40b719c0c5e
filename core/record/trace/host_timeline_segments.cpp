#include "core/record/trace/host_timeline_segments.h"

#include <algorithm>

namespace memtune::trace {

HostSegmentDeviceWindows::HostSegmentDeviceWindows(const std::vector<HostIssueSegment>& parts, const Trace& trace,
                                                   const std::vector<uint32_t>& part_of)
    : windows_(parts.size() + 1, {INT64_MAX, INT64_MIN}) {
  bool any = false;
  for (size_t i = 0; i < part_of.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    // Copies overlap the step and end at any time, so they do not show its progress.
    if (part_of[i] == 0 || event.kind != EventKind::kernel) continue;
    Window& window = windows_[part_of[i]];
    window = {std::min(window.begins_ns, event.start_ns), std::max(window.ends_ns, event.end_ns)};
    any = true;
  }
  windows_[0] = {0, 0};
  for (size_t n = 1; n < windows_.size(); ++n) {
    Window& window = windows_[n];
    const int64_t before = windows_[n - 1].ends_ns;
    if (!any)
      window = {parts[n - 1].host_ns, n < parts.size() ? parts[n].host_ns : parts[n - 1].host_ns};
    else if (window.begins_ns > window.ends_ns)
      window = {before, before};
    else
      window = {std::max(window.begins_ns, before), std::max(window.ends_ns, before)};
  }
}

void add_block_regions(const std::vector<HostIssueSegment>& parts, const HostSegmentDeviceWindows& clock,
                       Trace& trace) {
  for (size_t first = 0, next = 0; first < parts.size(); first = next) {
    next = first + 1;
    while (next < parts.size() && parts[next].region == parts[first].region) ++next;
    TraceEvent event;
    event.kind = EventKind::region;
    event.region = parts[first].region;
    event.start_ns = clock.begins_ns(static_cast<uint32_t>(first + 1));
    event.end_ns = clock.ends_ns(static_cast<uint32_t>(next));
    if (event.region.kind == TraceRegionLevel::none || event.start_ns >= event.end_ns) continue;
    event.track = trace.track({TrackRole::blocks});
    event.name = trace.name(parts[first].name);
    trace.events.push_back(event);
  }
}

}  // namespace memtune::trace
