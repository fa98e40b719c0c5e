// The report as JSON for scripts. Names are a contract: new ones may be added, existing ones never change.
//
//   {"trials": [{"strategy": .., "outcome": .., ...}], "recommendation": {"strategy": .., "reason": .., "fits": ..},
//    "findings": [{"severity": .., "rule": .., "what": .., "advice": .., "evidence": {..}}], "version": .., "model":
//    .., "device": .., "settings": .., "origin": {"written": .., "command": .., ..}, "reference": .., "emulated": ..,
//    "notes": [..]}
//
// A trial is result::to_json(Measurement) with "pareto" and "recommended". "batch" and "sequence" are present if the
// sweep varies them, "passes" with gradient accumulation, "predicted" with a prediction.
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

// Indented, ends with a line feed.
std::string to_json_text(const Report& report);

// Reads the output of to_json_text: rows, recommendation and facts, but no findings. Throws UsageError that begins with
// `what` if `text` is not such output.
Report from_json_text(const std::string& text, const std::string& what);

}  // namespace memtune::report
