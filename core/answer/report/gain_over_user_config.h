// Compares the recommended trial with what the user has now: the unchanged command, or the strategy of the config.
// Names the config or plan to use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/answer/report/report.h"
#include "core/answer/result/rounds.h"

namespace memtune::report {

struct GainOverUserConfig {
  const result::TrialResultRow* over;  // what the user has now, which worked
  result::StepTimeRatioEstimate time;  // time for the same work, relative to `over`
  int64_t peak_bytes = 0;              // peak minus that of `over`
};

// None if nothing is recommended, if the user has that already, or if what the user has is not known or failed.
std::optional<GainOverUserConfig> gain(const Report& report);

// "checkpoint-off takes 12 % less time a step than own, with 3.1 GiB more at the peak; its config is PATH". "" if
// nothing is recommended, if what the user has was not measured, or if nothing else was.
std::string gain_text(const Report& report);

}  // namespace memtune::report
