// How often, and in which way, a training's state is best saved when a job fails once in so long: Daly's estimate,
// which refines Young's sqrt(2 C M). Pure functions over what was measured. "A higher order estimate of the optimum
// checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/result/save_measurement.h"

namespace memtune::result {

// What a save takes from training: the time that it waits, and what steps lose while the save is on its way; by their
// slowdown where that is known, else by what the few steps took more.
double cost_ms(const SaveMeasurement& save);

// Seconds of training from one save to the next; cost and mean time between failures in seconds, both > 0.
double daly_interval_s(double cost_s, double mtbf_s);

struct SaveAdvice {
  std::string mode;
  double mtbf_s = 0;
  int64_t every_steps = 1;
  double interval_s = 0;  // of these steps
  // The share of time that saves and failures take: the saves themselves; with each failure half an interval, the time
  // that a save is on its way, which is lost with it, and reading a state back.
  double overhead = 0;
};

// The interval of a mode that worked, never shorter than a save takes until it is on the disk.
SaveAdvice advise(const SaveMeasurement& save, double step_ms, double mtbf_s);

// The mode with the least overhead; of equals the first. Nothing: none worked, or steps take no time.
std::optional<SaveAdvice> advise(std::span<const SaveMeasurement> saves, double step_ms, double mtbf_s);

}  // namespace memtune::result
