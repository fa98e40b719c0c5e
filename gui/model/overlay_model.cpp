#include <algorithm>
#include <array>

#include "gui/model/compare_model.h"

namespace memtune::gui {
namespace {

using trace::Intervals;
using trace::TimeInterval;
using trace::TraceEvent;

constexpr uint64_t kColumns = 1200;  // of the memory curve: more than a picture is wide

// Unsigned, so that no step is too long. Requires start <= end.
uint64_t length(int64_t start, int64_t end) { return static_cast<uint64_t>(end) - static_cast<uint64_t>(start); }

double ms_since(int64_t time_ns, const TimeInterval& step) {
  return time_ns < step.start ? -static_cast<double>(length(time_ns, step.start)) / 1e6
                              : static_cast<double>(length(step.start, time_ns)) / 1e6;
}

uint64_t column_of(const TimeInterval& step) {
  return step.end > step.start ? std::max<uint64_t>(1, length(step.start, step.end) / kColumns) : 1;
}

void add_curve(const LoadedTrace& loaded, const TimeInterval& step, const ByteDisplayUnit& unit, OverlaySide& side) {
  const MemoryModel& memory = loaded.timeline.memory;
  if (memory.empty() || step.end <= step.start) return;
  const uint64_t whole = length(step.start, step.end), width = column_of(step);
  const auto time_at = [&](uint64_t offset) {
    return static_cast<int64_t>(static_cast<uint64_t>(step.start) + offset);
  };
  for (uint64_t offset = 0, left = whole; left > 0;) {
    const uint64_t column = std::min(left, width);
    const int64_t start = time_at(offset), end = time_at(offset + column);
    offset += column;
    left -= column;
    side.times_ms.push_back(ms_since(start, step));
    side.memory.push_back(static_cast<double>(memory.greatest_between(start, end).allocated_bytes) / unit.bytes);
  }
}

size_t kind_of_block(const trace::TraceRegionKey& region) {
  if (region.pass == trace::Pass::backward) return 1;
  if (region.pass == trace::Pass::recompute) return 2;
  return region.pass == trace::Pass::optimizer || region.kind == trace::TraceRegionLevel::head ? 3 : 0;
}

// The blocks on the device's timeline.
void add_blocks(const LoadedTrace& loaded, const TimeInterval& step, OverlaySide& side) {
  const trace::Trace& trace = loaded.trace;
  for (const TraceEvent& event : trace.events) {
    const bool on_track = trace.tracks[event.track].role == trace::TrackRole::blocks;
    if (event.kind != trace::EventKind::region || !on_track || !trace.counts(event)) continue;
    if (event.end_ns <= step.start || event.start_ns >= step.end) continue;
    side.blocks.push_back({ms_since(event.start_ns, step), ms_since(event.end_ns, step), kind_of_block(event.region),
                           trace.names[event.name]});
  }
}

// Closes gaps too small to see, because a step has more kernels than the strip has pixels.
Intervals closed(const Intervals& set, uint64_t gap) {
  Intervals result;
  for (const TimeInterval& stretch : set) {
    if (!result.empty() && length(result.back().end, stretch.start) < gap)
      result.back().end = stretch.end;
    else
      result.push_back(stretch);
  }
  return result;
}

void add_activity(const LoadedTrace& loaded, const TimeInterval& step, OverlaySide& side) {
  const trace::StepDeviceTimeBreakdown breakdown = trace::find_step_time_breakdown(loaded.trace, {step});
  const std::array<const Intervals*, 6> sets = {&breakdown.compute,     &breakdown.in,   &breakdown.out,
                                                &breakdown.collectives, &breakdown.wait, &breakdown.idle};
  for (size_t kind = 0; kind < sets.size(); ++kind) {
    for (const TimeInterval& stretch : closed(*sets[kind], column_of(step)))
      side.activity.push_back(
          {ms_since(stretch.start, step), ms_since(stretch.end, step), kind, findings::kDeviceParts[kind]});
  }
}

OverlaySide make_side(const LoadedTrace& loaded, const TimeInterval& step, const ByteDisplayUnit& unit) {
  OverlaySide side;
  side.step_ms = ms_since(step.end, step);
  add_curve(loaded, step, unit, side);
  add_blocks(loaded, step, side);
  add_activity(loaded, step, side);
  return side;
}

int64_t peak_of(const LoadedTrace& loaded) {
  const MemoryModel& memory = loaded.timeline.memory;
  return memory.empty() ? 0 : memory.allocated_bytes[memory.peak];
}

}  // namespace

Overlay make_overlay(const LoadedTrace& a, const LoadedTrace& b) {
  Overlay overlay;
  overlay.diff = findings::diff(a.trace, b.trace);
  overlay.unit = unit_for(std::max(peak_of(a), peak_of(b)));
  overlay.a = make_side(a, overlay.diff.a_step, overlay.unit);
  overlay.b = make_side(b, overlay.diff.b_step, overlay.unit);
  return overlay;
}

}  // namespace memtune::gui
