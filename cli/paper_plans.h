// "memtune plan --from RUN": what any budget costs, worked out from one trial of a finished sweep.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/other_machine.h"

namespace memtune::cli {

struct PaperFlags {
  std::string run;
  std::vector<std::string> budgets;
  std::string host_budget, disk_budget, output, json;
  std::string batch;     // that it is planned for, N or "auto"; "": the run's
  MachineFlags machine;  // likewise, where it is another than the run's
  ConsoleFlags console;
};

// To stdout a table, with reasons where budgets were given, else with a plot; or JSON; with `output` the plan of the
// one budget as a file ("-": it alone to stdout). Throws UsageError, IoError.
int plan_on_paper(const PaperFlags& flags);

}  // namespace memtune::cli
