// Which of a plan's values lie on the device at a moment, as far as the trace tells: from when they were made, or were
// copied back or made again, until they left or were used last. What ops need only while they run is in no trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace memtune::trace {

// Of one op, in all blocks that are called alike: "layers.* w1 linear".
struct HeldValues {
  std::string name;
  size_t count = 0;
  int64_t bytes = 0;
};

// The largest first. Passes over all events once.
std::vector<HeldValues> held_values(const Trace& trace, int64_t time_ns);

// "layers.15.attn/aten::silu" in "layers.15" -> "layers.*.attn silu"
std::string family(const TracedValue& value);

}  // namespace memtune::trace
