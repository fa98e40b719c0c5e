// The trip of a value: saved, copied out, written, read, copied back or made again, used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/model/timeline_model.h"

namespace memtune::gui {

// Events of one value in one step, in order of time. A value has a trip a step.
using Trip = std::vector<uint32_t>;
std::vector<Trip> trips_of(const trace::Trace& trace, const TimelineModel& model, trace::ValueId value);

// The trip that is under way at `time_ns` or the nearest to it; empty when the value has none.
Trip trip_near(const trace::Trace& trace, const TimelineModel& model, trace::ValueId value, int64_t time_ns);

trace::Interval extent(const trace::Trace& trace, const Trip& trip);

// "saved", "copied out", "written to disk", "read from disk", "copied in", "made again", "used"
std::string stage_name(trace::EventKind kind);

}  // namespace memtune::gui
