// A plan as a Python file for any training loop: the template python/memtune_plan.py, with this plan as its data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/report/report.h"

namespace memtune::trainer {

struct PythonPlan {
  std::string text;
  std::vector<std::string> notes;  // what Python does otherwise than the plan says; also in the text
};

// `plan` is the one that `row` was measured under, of the program of `facts`. UsageError where the model has no blocks,
// and for a trial that failed.
PythonPlan write_python_plan(const config::Plan& plan, const config::ProgramFacts& facts, const result::Row& row,
                             const report::Report& report);

// Whether a file is what write_python_plan makes here: its code, around data that are literals and nothing else.
bool is_python_plan(std::string_view text);

// python/memtune_plan.py with the text of what it imports of the others beside it.
std::string python_template();

// A file as it lies in the tree: "plan", "values", "moved" or "compiled".
std::string_view python_part(std::string_view name);

}  // namespace memtune::trainer
