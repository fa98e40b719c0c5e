// Trials run in turn (A B C, A B C, ...), so that drift of the machine affects all equally. Trials are compared by the
// ratio of their median step to the baseline's in the same round. The ratio has an interval over the rounds
// (docs/decisions/rounds-and-ratios.md).
#pragma once

#include "core/record/measurement/trial_measurement.h"

namespace memtune::result {

// Ratio of a trial's step time to another's.
struct StepTimeRatioEstimate {
  double value = 1, low = 1, high = 1;  // low and high: the interval
};

// Confidence of an interval. Single values are shown with 95 %. Comparing many trials needs 99 %, because the fastest
// of ten has had ten chances to look fast.
enum class ConfidenceIntervalLevel { percent95, percent99 };

// Geometric mean of the rounds' ratios, with Student's t interval of their logarithms. In each round both are compared
// with the same baseline, which may be `base`. Fewer than two such rounds give the ratio of the medians, with the
// interval of the trial's own median.
StepTimeRatioEstimate ratio_of(const TrialMeasurement& measurement, const TrialMeasurement& base,
                               ConfidenceIntervalLevel = ConfidenceIntervalLevel::percent95);

// Whether there are two or more rounds for ratio_of().
bool have_rounds_in_common(const TrialMeasurement& a, const TrialMeasurement& b);

// Merges round `index` (from 0) into earlier rounds: step times use the samples of all rounds, peaks the maximum.
void add_round(size_t index, const TrialMeasurement& round, const TrialRoundTimesAndMachineLoad& beside,
               TrialMeasurement& to);

}  // namespace memtune::result
