// What one way of saving costs a training: steps without saves, then saves one after another, each with the steps
// beside it until it has ended, and two more without. For one mode of config::kSaveModes in a process of its own.
#pragma once

#include "core/config/run_request.h"
#include "core/result/save_measurement.h"
#include "core/trial/frames.h"
#include "core/trial/runner.h"

namespace memtune::trial {

// Saves `request.saves` times into its folder, and reads the last back. A save that fails ends it,
// with the reason. Throws what ops, engines and states throw, but for device memory that ran out.
result::SaveMeasurement measure_saves(const config::RunRequest& request, Runner& runner, Frames& frames);

}  // namespace memtune::trial
