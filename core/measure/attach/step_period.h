// Step times of a command in which some steps do other work, as an evaluation every tenth step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/measure/attach/records.h"
#include "core/record/measurement/trial_measurement.h"

namespace memtune::attach {

// How many steps of `count` measured ones make one sample of the step time: a whole period. If steps differ without a
// period, half of them. 1: steps are alike, or too few are known.
int64_t steps_of_a_sample(const StepPeriodicityRecord& period, int64_t count);

// Means over the last whole groups of so many steps, in order of time.
std::vector<double> means_of(const std::vector<double>& step_ms, int64_t steps);

// Which steps differ, by how much, and what the longer ones do. `steps_of_a_sample` as above.
std::string period_text(const TrainingProcessRecords& records, int64_t steps_of_a_sample);

// "a step waits 201 ms of 210 ms for its batch ..."; "" if a fifth of the time or less is such waiting.
std::string waiting_text(const TrainingProcessRecords& records);

}  // namespace memtune::attach
