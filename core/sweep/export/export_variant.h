// "memtune export" for a sweep of a training command: writes a variant of the trainer's config, or the plan of a
// variant.
#pragma once

#include <functional>
#include <string>

#include "core/answer/run/run_directory_with_report.h"

namespace memtune::sweep {

struct VariantExportOptions {
  std::string path;                             // of the run, as typed
  std::string trainer;                          // "python": a plan
  std::string strategy;                         // a variant's name; "": the best of its kind
  std::string into;                             // the trainer's config to change; "": the measured file
  std::function<void(const std::string&)> say;  // gets the measurement, and how to apply a plan
};

// Returns the text to write. Throws UsageError if the run has no such variant.
std::string exported_variant(const RunDirectoryWithReport& run, const VariantExportOptions& options);

}  // namespace memtune::sweep
