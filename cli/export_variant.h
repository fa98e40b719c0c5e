// "memtune export" of a sweep of a training command: a variant of the trainer's config, or the plan that it was run
// under.
#pragma once

#include <string>

#include "cli/console.h"
#include "cli/finished_run.h"

namespace memtune::cli {

struct VariantFlags {
  std::string path;      // of the run, as it was typed
  std::string trainer;   // "python": a plan
  std::string strategy;  // a variant's name; "": the best of that kind
  std::string into;      // a config of that trainer; "": the file that was measured
  ConsoleFlags console;
};

// What is to be written; stderr is told what was measured and how a plan is put to work. UsageError where the run has
// no such thing.
std::string exported_variant(const FinishedRun& run, const VariantFlags& flags);

}  // namespace memtune::cli
