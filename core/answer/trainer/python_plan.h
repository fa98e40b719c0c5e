// Writes a plan as a Python file for any training loop: the needed parts of the template
// core/answer/trainer/python/memtune_plan.py, with the plan as data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/answer/report/report.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"

namespace memtune::trainer {

enum class PythonPlanMode { eager, compiled };  // how Python runs the model's blocks

struct PythonPlan {
  std::string text;
  std::vector<std::string> notes;  // where Python deviates from the plan; also in the text
};

// `row` was measured under `plan`, which is for the program of `facts`. Throws UsageError for a model without blocks
// and for a failed trial.
PythonPlan write_python_plan(const plan::Plan& plan, const plan::ProgramFacts& facts, const result::TrialRow& row,
                             const report::Report& report, PythonPlanMode running = PythonPlanMode::eager);

struct PythonPlanCopy {
  std::string text;
  bool same = false;  // equal to the file read, apart from comments at its top
};

// Writes a file of a run's folder again: its data, with this memtune's code and comments about `row`. Takes nothing
// else from `text`, because the file is untrusted. Throws UsageError if the data is unreadable.
PythonPlanCopy copy_python_plan(const std::string& text, const result::TrialRow& row, const report::Report& report);

// A source file of the template: "plan", or a name that it includes by a mark. "# [include values]" inserts
// memtune_values.py from its first line of "# --- " on. Lines after a mark like "# [moves]" go only into files for
// which its words hold, up to the next mark. The words are "eager" or "compiled", and "moves" (offloads to host memory)
// or "stays".
std::string_view python_part(std::string_view name);

}  // namespace memtune::trainer
