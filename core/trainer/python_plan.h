// A plan as a Python file for any training loop: what it needs of the template python/memtune_plan.py, with this plan
// as its data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/report/report.h"

namespace memtune::trainer {

enum class Running { eager, compiled };  // what becomes of the model's blocks in Python

struct PythonPlan {
  std::string text;
  std::vector<std::string> notes;  // what Python does otherwise than the plan says; also in the text
};

// `plan` is the one that `row` was measured under, of the program of `facts`. UsageError where the model has no blocks,
// and for a trial that failed.
PythonPlan write_python_plan(const config::Plan& plan, const config::ProgramFacts& facts, const result::Row& row,
                             const report::Report& report, Running running = Running::eager);

struct PythonCopy {
  std::string text;
  bool same = false;  // as the file that was read, but for comments at the head
};

// A file of a run's folder written anew: its data, under this memtune's code and a head of `row`. Nothing else of
// `text` is taken, as anybody may have written it. UsageError where the data cannot be read.
PythonCopy copy_python_plan(const std::string& text, const result::Row& row, const report::Report& report);

// A file as it lies in the tree: "plan", or what that includes by its marks. "# [include values]": the text of
// memtune_values.py from its first line of "# --- " on; lines behind "# [moves]" go into files for which that word
// holds, up to the next mark: "eager" or "compiled", and "moves" (to host memory) or "stays".
std::string_view python_part(std::string_view name);

}  // namespace memtune::trainer
