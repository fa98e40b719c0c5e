// What the recommended variant of a command is better at than the one that the user has, and the file to use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/report/report.h"
#include "core/result/rounds.h"

namespace memtune::report {

struct Gain {
  const result::Row* over;  // the variant that the others are compared with; it worked
  result::Ratio time;       // for the same work, over its
  int64_t peak_bytes = 0;   // more than its; negative: less
};

// Nothing where no variant of a command is recommended, where it is the user's own, or where that did not work.
std::optional<Gain> gain(const Report& report);

// "checkpoint-off takes 12 % less time a step than own and 3.1 GiB more at the peak; its config is PATH"; "" where no
// variant is recommended, or there is only one.
std::string gain_text(const Report& report);

}  // namespace memtune::report
