// Traces of round milliseconds, so that findings and differences can be checked by hand.
#pragma once

#include <string>

#include "core/trace/event.h"

namespace memtune::findings {

class MadeUp {
 public:
  static constexpr int64_t kMs = 1'000'000, kMiB = int64_t{1} << 20;

  // An event; its index.
  uint32_t add(trace::Kind kind, double from_ms, double to_ms, const std::string& name = "", int64_t bytes = 0,
               uint32_t value = 0) {
    trace::Event event;
    event.kind = kind;
    const bool host = name == "step" || kind == trace::Kind::op;
    event.track = trace.track(host ? "host " + name : trace::to_string(kind), !host);
    event.name = trace.name(name.empty() ? trace::to_string(kind) : name);
    event.start_ns = static_cast<int64_t>(from_ms * kMs);
    event.end_ns = static_cast<int64_t>(to_ms * kMs);
    event.bytes = bytes;
    event.value = value;
    trace.events.push_back(event);
    return static_cast<uint32_t>(trace.events.size() - 1);
  }
  uint32_t step(double from_ms, double to_ms) { return add(trace::Kind::region, from_ms, to_ms, "step"); }
  uint32_t kernel(double from_ms, double to_ms) { return add(trace::Kind::kernel, from_ms, to_ms); }

  // 1 + its index, as events name it.
  uint32_t value(const std::string& region, const std::string& placement, int64_t bytes) {
    trace.values.push_back({region + " value", region, placement, "", bytes});
    return static_cast<uint32_t>(trace.values.size());
  }

  trace::Trace trace;
};

}  // namespace memtune::findings
