// Whether a variant of a training command trains as the one that others are compared with: the losses of the first
// steps of all rounds, beside each other.
#pragma once

#include "core/result/measurement.h"

namespace memtune::result {

// At step k losses may lie outside those of the base's rounds by twice what these differ by among themselves, and by k
// times the rounding of the dtype that either computes in: 2^-8 of the loss in bfloat16, 2^-10 in float16, else 1e-5,
// for a step goes on from what those before it rounded. Steps that only one of them took are not looked at; one that is
// no number where the base's is has changed. Of steps of other samples nothing is compared.
Losses compare_losses(const Measurement& measurement, const Measurement& base);

// Their steps are of other numbers of samples, which both are known to count.
bool has_other_samples(const Measurement& measurement, const Measurement& base);

// "its loss of step 1 is 10.41, that of X 10.38 (± 0.001 would be noise)"; "" where nothing changed.
std::string why_changed(const Losses& losses);

}  // namespace memtune::result
