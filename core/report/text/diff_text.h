// Two sweeps beside each other, for people and for scripts.
#pragma once

#include <string>
#include <vector>

#include "core/result/diff.h"

namespace memtune::report {

// The columns step ms, peak and hidden as "A → B +2.1 %", losses and gradients where they differ; ends with
// a line feed.
std::string diff_table(const std::vector<result::DiffRow>& rows);
// {"trials": [{"strategy": .., "in": "both", "broke": .., "a": {..}, "b": {..}, "step_ms": .., "peak_bytes": .., ...}]}
// with B minus A for figures.
std::string diff_json(const std::vector<result::DiffRow>& rows);

}  // namespace memtune::report
