// Two trials' traces beside each other, step by step: how long each phase and block took in both, and of what the
// difference is made.
#pragma once

#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/occupation.h"

namespace memtune::findings {

// Something that takes time in a step: a region of the trace ("layers.3 backward", "optimizer"; "all blocks backward"
// sums those of all blocks; the same in both traces whatever their names), or what the device did over the whole step
// (kDeviceParts).
struct StepPart {
  std::string name;
  bool region = true;
  double a_ms = 0, b_ms = 0;   // a step; 0 in the trace that has none
  std::string cause;           // "copies in exposed +1.7 ms": most of a region's difference; "" where there is none
  trace::Interval in_a, in_b;  // where it comes first in the aligned steps; empty: not there

  double delta_ms() const { return b_ms - a_ms; }
};
inline const std::vector<std::string> kDeviceParts = {
    "compute", "copies in exposed", "copies out exposed", "collectives exposed", "waits", "idle"};

struct TraceDiff {
  trace::Interval a_step, b_step;  // the steps to lay over each other: of median length
  double a_ms = 0, b_ms = 0;       // a step, on average
  std::vector<StepPart> parts;     // the largest difference first
};

// Regions are those of the device where a trace has such, else those of the host; unions, so what nests counts once. An
// empty trace gives empty steps and no regions.
TraceDiff diff(const trace::Trace& a, const trace::Trace& b);

// "layers.3 backward +1.8 ms: copies in exposed +1.7 ms".
std::string sentence(const StepPart& part);

}  // namespace memtune::findings
