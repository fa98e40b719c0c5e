// Checks that a variant of a training command trains like the base variant, by the losses of the first steps of all
// rounds.
#pragma once

#include "core/record/measurement/trial_measurement.h"

namespace memtune::result {

// A loss at step k has changed if it is farther from the range of the base's rounds than allowed. Allowed is twice that
// range's width, plus k roundings, because rounding errors accumulate over steps. One rounding is 2^-8 of the loss in
// bfloat16, 2^-10 in float16, else 1e-5, for the less precise dtype of the two. Steps that only one of them ran are
// ignored. A loss that is not finite has changed if the base's is finite. Nothing is compared if the samples per step
// differ. A variant in which more trained tensors have no gradient has changed, whatever its losses are.
LossComparison compare_losses(const TrialMeasurement& measurement, const TrialMeasurement& base);

// Whether fewer trained tensors have no gradient.
bool trains_more(const TrialMeasurement& measurement, const TrialMeasurement& other);

// Whether both count samples per step and the counts differ.
bool has_other_samples(const TrialMeasurement& measurement, const TrialMeasurement& base);

// "its loss of step 1 is 10.41, that of X 10.38 (± 0.001 would be noise)", or the tensors without a gradient; "" if
// nothing changed.
std::string why_changed(const LossComparison& losses);

}  // namespace memtune::result
