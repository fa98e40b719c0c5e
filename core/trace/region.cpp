#include "core/trace/region.h"

namespace memtune::trace {

bool is_block(std::string_view name) { return !name.empty() && name.back() >= '0' && name.back() <= '9'; }

std::string region_at(const Trace& trace, int64_t time_ns) {
  const Event* innermost = nullptr;
  const auto span = [](const Event& event) { return event.end_ns - event.start_ns; };
  for (const Event& event : trace.events) {
    const bool around = event.start_ns <= time_ns && time_ns <= event.end_ns;
    if (event.kind != Kind::region || !around || !trace.tracks[event.track].device) continue;
    if (!innermost || span(event) <= span(*innermost)) innermost = &event;
  }
  return innermost ? trace.names[innermost->name] : "";
}

}  // namespace memtune::trace
