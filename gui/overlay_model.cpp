#include <algorithm>
#include <array>

#include "gui/compare_model.h"

namespace memtune::gui {
namespace {

using trace::Event;
using trace::Interval;
using trace::Intervals;

constexpr double kGiB = 1 << 30;
constexpr int64_t kColumns = 1200;  // of the memory curve: more than a picture is wide

double ms_since(int64_t time_ns, const Interval& step) { return static_cast<double>(time_ns - step.start) / 1e6; }

void add_curve(const LoadedTrace& loaded, const Interval& step, OverlaySide& side) {
  const MemoryModel& memory = loaded.timeline.memory;
  if (memory.empty() || step.end <= step.start) return;
  const int64_t width = std::max<int64_t>(1, (step.end - step.start) / kColumns);
  for (int64_t start = step.start; start < step.end; start += width) {
    const int64_t greatest = memory.greatest_between(start, start + width);
    side.times_ms.push_back(ms_since(start, step));
    side.gib.push_back(static_cast<double>(memory.at(greatest).allocated_bytes) / kGiB);
  }
}

size_t kind_of_block(const std::string& name) {
  if (name.ends_with(" backward")) return 1;
  if (name.ends_with(" recompute")) return 2;
  return name == "optimizer" || name == "head" ? 3 : 0;
}

// The device's blocks, or the host's where it has none.
void add_blocks(const LoadedTrace& loaded, const Interval& step, OverlaySide& side) {
  const trace::Trace& trace = loaded.trace;
  const auto track = [&](const char* name) {
    const auto found = std::ranges::find(trace.tracks, name, &trace::Track::name);
    return found == trace.tracks.end() ? std::optional<uint32_t>()
                                       : std::optional(static_cast<uint32_t>(found - trace.tracks.begin()));
  };
  const std::optional<uint32_t> blocks = track("device blocks");
  for (const Event& event : trace.events) {
    if (event.kind != trace::Kind::region || event.track != blocks) continue;
    if (event.end_ns <= step.start || event.start_ns >= step.end) continue;
    const std::string& name = trace.names[event.name];
    side.blocks.push_back({ms_since(event.start_ns, step), ms_since(event.end_ns, step), kind_of_block(name), name});
  }
}

// Without the gaps that no picture shows: a step has more kernels than a strip has pixels.
Intervals closed(const Intervals& set, int64_t gap) {
  Intervals result;
  for (const Interval& stretch : set) {
    if (!result.empty() && stretch.start - result.back().end < gap)
      result.back().end = stretch.end;
    else
      result.push_back(stretch);
  }
  return result;
}

void add_activity(const LoadedTrace& loaded, const Interval& step, OverlaySide& side) {
  const trace::Occupation occupation = trace::find_occupation(loaded.trace, {step});
  const std::array<const Intervals*, 5> sets = {&occupation.compute, &occupation.in, &occupation.out, &occupation.wait,
                                                &occupation.idle};
  for (size_t kind = 0; kind < sets.size(); ++kind) {
    for (const Interval& stretch : closed(*sets[kind], (step.end - step.start) / kColumns))
      side.activity.push_back(
          {ms_since(stretch.start, step), ms_since(stretch.end, step), kind, report::kDeviceParts[kind]});
  }
}

OverlaySide make_side(const LoadedTrace& loaded, const Interval& step) {
  OverlaySide side;
  side.step_ms = ms_since(step.end, step);
  add_curve(loaded, step, side);
  add_blocks(loaded, step, side);
  add_activity(loaded, step, side);
  return side;
}

}  // namespace

Overlay make_overlay(const LoadedTrace& a, const LoadedTrace& b) {
  Overlay overlay;
  overlay.diff = report::diff(a.trace, b.trace);
  overlay.a = make_side(a, overlay.diff.a_step);
  overlay.b = make_side(b, overlay.diff.b_step);
  return overlay;
}

}  // namespace memtune::gui
