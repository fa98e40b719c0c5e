// The answer for scripts. The names are a contract: they may be added to, never changed.
//
//   {"trials": [{"strategy": .., "outcome": .., ...}], "recommendation": {"strategy": .., "reason": .., "fits": ..},
//    "findings": [{"severity": .., "rule": .., "what": .., "advice": .., "evidence": {..}}], "version": .., "model":
//    .., "device": .., "settings": .., "origin": {"written": .., "command": .., ..}, "reference": .., "emulated": ..,
//    "notes": [..]}
//
// A trial is result::to_json(Measurement) with "pareto" and "recommended", "batch" and "sequence" where they are axes,
// "passes" where a step has several, and "predicted" where it was.
#pragma once

#include <string>

#include "core/report/report.h"

namespace memtune::report {

// Indented, ends with a line feed.
std::string to_json_text(const Report& report);

// What to_json_text wrote: rows, recommendation and facts, not the findings. UsageError beginning with `what` when
// `text` is none.
Report from_json_text(const std::string& text, const std::string& what);

}  // namespace memtune::report
