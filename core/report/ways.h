// Of a training command that was measured under its trainer's own settings and under a plan in Python: the best of
// either way, since not everybody may change what the trainer runs.
#pragma once

#include <string>
#include <vector>

#include "core/report/report.h"

namespace memtune::report {

struct Way {
  std::string head;                  // "In keys of axolotl", "With memtune_plan.py"
  std::string text;                  // "checkpoint-full, 313 ms at 13.3 GiB"; why there is nothing
  bool by_plan = false;              // else by the trainer's settings
  bool fits = false;                 // it has an answer that keeps the budget
  const result::Row* row = nullptr;  // of the report: the answer, or what comes nearest; nullptr: nothing worked
};

// Settings, then the plan; none where no plan was looked for.
std::vector<Way> ways(const Report& report);

}  // namespace memtune::report
