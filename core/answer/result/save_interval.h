// Chooses how often and in which mode to save a training's state, for a given mean time between failures. Uses Daly's
// estimate, a refinement of Young's sqrt(2 C M). Pure functions over measurements. "A higher order estimate of the
// optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/record/measurement/state_save_mode_measurement.h"

namespace memtune::result {

// Training time lost to one save: the time training is blocked, and the slowdown of steps until the save is durable.
// Uses the measured slowdown if known, else the extra time of the few steps.
double cost_ms(const StateSaveModeMeasurement& save);

// Seconds of training between saves. Cost and mean time between failures are in seconds, both > 0.
double daly_interval_s(double cost_s, double mtbf_s);

struct SaveIntervalAdvice {
  std::string mode;
  double mtbf_s = 0;
  int64_t every_steps = 1;
  double interval_s = 0;  // time of these steps
  // Share of time lost to saves and failures. A failure loses half an interval, the duration of a running save, and the
  // time to load a state.
  double overhead = 0;
};

// The best interval for one mode, never shorter than a save needs to become durable. `save` must have worked.
SaveIntervalAdvice advise(const StateSaveModeMeasurement& save, double step_ms, double mtbf_s);

// The mode with the least overhead; the first of equal ones. Returns nothing if no mode worked or steps take no time.
std::optional<SaveIntervalAdvice> advise(std::span<const StateSaveModeMeasurement> saves, double step_ms,
                                         double mtbf_s);

}  // namespace memtune::result
