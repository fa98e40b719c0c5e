// Compares the recommended variant of a command with the user's own one and names the config or plan to use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/answer/report/report.h"
#include "core/answer/result/rounds.h"

namespace memtune::report {

struct VariantGain {
  const result::TrialRow* over;  // the user's own variant, which worked
  result::RatioEstimate time;    // time for the same work, relative to `over`
  int64_t peak_bytes = 0;        // peak minus that of `over`
};

// None if no variant of a command is recommended, if the user's own one is, or if that one failed.
std::optional<VariantGain> gain(const Report& report);

// "checkpoint-off takes 12 % less time a step than own, with 3.1 GiB more at the peak; its config is PATH". "" if no
// variant is recommended or there is only one.
std::string gain_text(const Report& report);

}  // namespace memtune::report
