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

enum class EagerOrCompiledExecution { eager, compiled };  // how Python runs the model's blocks

struct RenderedPythonPlan {
  std::string text;
  std::vector<std::string> notes;  // where Python deviates from the plan; also in the text
};

// Parameters outside of blocks, which the Python file does not offload.
bool offloads_outside_parameters(const plan::Plan& plan);

// `row` was measured under `plan`, which is for the program of `facts`. Throws UsageError for a model without blocks,
// for a failed trial, and for parameters and optimizer states in places that the file does not support.
RenderedPythonPlan write_python_plan(const plan::Plan& plan, const plan::ProgramFacts& facts,
                                     const result::TrialResultRow& row, const report::Report& report,
                                     EagerOrCompiledExecution running = EagerOrCompiledExecution::eager);

struct RegeneratedPythonPlan {
  std::string text;
  bool same = false;  // equal to the file read, apart from comments at its top
};

// Writes a file of a run's folder again: its data, with this memtune's code and comments about `row`. Takes nothing
// else from `text`, because the file is untrusted. Throws UsageError if the data is unreadable.
RegeneratedPythonPlan copy_python_plan(const std::string& text, const result::TrialResultRow& row,
                                       const report::Report& report);

// A source file of the template: "plan", or a name that it includes by a mark. "# [include values]" inserts
// memtune_values.py from its first line of "# --- " on. Lines after a mark like "# [moves]" go only into files for
// which its words hold, up to the next mark. The words are "eager" or "compiled", "moves" (offloads activations to host
// memory) or "stays", "states" (offloads parameters or optimizer states) or "resident", and "copies" (either) or
// "still".
std::string_view python_part(std::string_view name);

}  // namespace memtune::trainer
