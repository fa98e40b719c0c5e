// "memtune plan --from RUN": simulates plans for any budget, from one trial of a finished sweep.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/other_machine.h"

namespace memtune::cli {

struct PlanFromRunFlags {
  std::string run;
  std::vector<std::string> budgets;
  std::string host_budget, disk_budget, output, json;
  std::string batch;     // batch to plan for, N or "auto"; "": the run's
  MachineFlags machine;  // machine to plan for; empty: the run's
  ConsoleFlags console;
};

// Prints a table to stdout: with reasons if budgets were given, otherwise with a plot. Or prints JSON. `output` writes
// the plan of the single budget to a file ("-": only the plan, to stdout). Throws UsageError, IoError.
int predict_plans(const PlanFromRunFlags& flags);

}  // namespace memtune::cli
