// Activations resident on the device at a moment, as far as the trace shows. An activation is resident from its
// creation, reload or recomputation until it is offloaded or used last. Temporaries of ops are in no trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/record/trace/trace_event.h"

namespace memtune::trace {

// Activations of one op, over all similar blocks: "layers.* w1 linear".
struct ResidentActivationTotalsOfOp {
  std::string name;
  size_t count = 0;
  int64_t bytes = 0;
};

// Sorted by size, largest first. One pass over all events.
std::vector<ResidentActivationTotalsOfOp> held_values(const Trace& trace, int64_t time_ns);

// "layers.15.attn/aten::silu" in "layers.15" gives "layers.*.attn silu".
std::string family(const TracedActivationPlacement& value);

}  // namespace memtune::trace
