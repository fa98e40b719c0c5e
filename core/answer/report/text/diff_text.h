// Compares two sweeps, as a table for people and as JSON for scripts.
#pragma once

#include <string>
#include <vector>

#include "core/answer/result/diff.h"

namespace memtune::report {

// Step time, peak and hidden share as "A → B +2.1 %", and losses and gradients if they differ. Ends with a line feed.
std::string diff_table(const std::vector<result::SweepDiffRow>& rows);
// {"trials": [{"strategy": .., "in": "both", "broke": .., "a": {..}, "b": {..}, "step_ms": .., "peak_bytes": ..,
// ...}]}.
// Figures are B minus A.
std::string diff_json(const std::vector<result::SweepDiffRow>& rows);

}  // namespace memtune::report
