// Traces with round milliseconds, so that findings and differences can be checked by hand.
#pragma once

#include <string>

#include "core/record/trace/trace_event.h"

namespace memtune::findings {

class MadeUp {
 public:
  static constexpr int64_t kMs = 1'000'000, kMiB = int64_t{1} << 20;

  // Adds an event; returns its index.
  uint32_t add(trace::EventKind kind, double from_ms, double to_ms, const std::string& name = "", int64_t bytes = 0,
               trace::ValueId value = {}) {
    trace::TraceEvent event;
    event.kind = kind;
    event.track = trace.track({role_of(kind)});
    event.name = trace.name(name.empty() ? trace::to_string(kind) : name);
    event.start_ns = static_cast<int64_t>(from_ms * kMs);
    event.end_ns = static_cast<int64_t>(to_ms * kMs);
    event.bytes = bytes;
    event.value = value;
    trace.events.push_back(event);
    return static_cast<uint32_t>(trace.events.size() - 1);
  }
  uint32_t kernel(double from_ms, double to_ms) { return add(trace::EventKind::kernel, from_ms, to_ms); }
  uint32_t step(double from_ms, double to_ms) {
    return region(from_ms, to_ms, {trace::TraceRegionLevel::step}, "step", trace::TrackRole::steps);
  }
  // Adds a region of the device by default.
  uint32_t region(double from_ms, double to_ms, const trace::TraceRegionKey& region, const std::string& name,
                  trace::TrackRole role = trace::TrackRole::blocks) {
    const uint32_t index = add(trace::EventKind::region, from_ms, to_ms, name);
    trace.events[index].region = region;
    trace.events[index].track = trace.track({role});
    return index;
  }

  trace::ValueId value(const std::string& region, int32_t block, const std::string& placement, int64_t bytes) {
    trace.values.push_back({region + " value", region, placement, "", bytes, block});
    return trace::ValueId(trace.values.size() - 1);
  }

  trace::Trace trace;

 private:
  static trace::TrackRole role_of(trace::EventKind kind) {
    switch (kind) {
      case trace::EventKind::copy_out: return trace::TrackRole::copy_out;
      case trace::EventKind::copy_in: return trace::TrackRole::copy_in;
      case trace::EventKind::disk_write: return trace::TrackRole::disk_write;
      case trace::EventKind::disk_read: return trace::TrackRole::disk_read;
      case trace::EventKind::op: return trace::TrackRole::ops;
      case trace::EventKind::save:
      case trace::EventKind::use: return trace::TrackRole::values;
      default: return trace::TrackRole::compute;
    }
  }
};

}  // namespace memtune::findings
