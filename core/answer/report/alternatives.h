// The two options of a training command: its trainer's own settings, and a plan in Python. Shows the best of each,
// because some users cannot change the code that the trainer runs.
#pragma once

#include <string>
#include <vector>

#include "core/answer/report/report.h"

namespace memtune::report {

struct BestTrialWithTrainerSettingsOrPythonPlan {
  std::string head;                             // "In keys of axolotl", "With memtune_plan.py"
  std::string text;                             // "checkpoint-full, 313 ms at 13.3 GiB", or why there is no answer
  bool by_plan = false;                         // otherwise by the trainer's settings
  bool fits = false;                            // has an answer that fits the budget
  const result::TrialResultRow* row = nullptr;  // the answer, or the smallest peak if none fits; nullptr: none worked
};

// Settings first, then the plan. Empty if no plan was looked for.
std::vector<BestTrialWithTrainerSettingsOrPythonPlan> alternatives(const Report& report);

}  // namespace memtune::report
