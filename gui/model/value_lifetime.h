// The lifetime of a saved tensor: saved, copied out, written, read, copied back or recomputed, used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/model/timeline_model.h"

namespace memtune::gui {

// Events of one tensor in one step, in order of time. A tensor has one lifetime per step.
using ValueLifetime = std::vector<uint32_t>;
std::vector<ValueLifetime> value_lifetimes(const trace::Trace& trace, const TimelineModel& model, trace::ValueId value);

// The lifetime at `time_ns`, or the nearest to it; empty if the tensor has none.
ValueLifetime lifetime_near(const trace::Trace& trace, const TimelineModel& model, trace::ValueId value,
                            int64_t time_ns);

trace::TimeInterval extent(const trace::Trace& trace, const ValueLifetime& lifetime);

// Display name of an event in a lifetime: "saved", "copied out", "written to disk", ...
std::string stage_name(trace::EventKind kind);

}  // namespace memtune::gui
