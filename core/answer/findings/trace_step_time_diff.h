// Compares the traces of two trials per step: how long each phase and block took in both, and what causes the
// difference.
#pragma once

#include <string>
#include <vector>

#include "core/record/trace/step_device_time_breakdown.h"
#include "core/record/trace/trace_event.h"

namespace memtune::findings {

// Something that takes time in a step. It is either a region of the trace ("layers.3 backward", "optimizer"; "all
// blocks backward" sums those of all blocks), whose names may differ between the traces. Or it is what the device did
// over the whole step (kDeviceParts).
struct StepPartDiff {
  std::string name;
  bool region = true;
  double a_ms = 0, b_ms = 0;       // per step; 0 in a trace without it
  std::string cause;               // "copies in exposed +1.7 ms": the largest part of a region's difference; "": none
  trace::TimeInterval in_a, in_b;  // the first one in the aligned steps; empty: none

  double delta_ms() const { return b_ms - a_ms; }
};
inline const std::vector<std::string> kDeviceParts = {
    "compute", "copies in exposed", "copies out exposed", "collectives exposed", "waits", "idle"};

struct TraceStepTimeDiff {
  trace::TimeInterval a_step, b_step;  // the steps to align: of median length
  double a_ms = 0, b_ms = 0;           // per step, on average
  std::vector<StepPartDiff> parts;     // the largest difference first
};

// Uses regions of the device if a trace has some, else those of the host. Nested regions count once. An empty trace
// gives empty steps and no regions.
TraceStepTimeDiff diff(const trace::Trace& a, const trace::Trace& b);

// "layers.3 backward +1.8 ms: copies in exposed +1.7 ms".
std::string sentence(const StepPartDiff& part);

}  // namespace memtune::findings
