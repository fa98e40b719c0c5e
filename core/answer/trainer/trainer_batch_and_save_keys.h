// Exports a trial as keys of a trainer's config. Writes only keys that this release of the trainer supports, for a
// measured strategy. If a strategy has no counterpart, exports the best measured one that fits, and reports what that
// costs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/answer/report/report.h"

namespace memtune::trainer {

std::span<const std::string> trainers();  // "torchtune", "axolotl", ...

struct ConfigExportReleasesAndUserConfig {
  std::map<std::string, std::string> releases = {};  // by package, "" for the trainer itself; default: the profile's
  std::string text = {}, name = {};                  // the user's own config, into which the keys are put
};

// A key whose value the export changes, as JSON texts. `before` is the trainer's default if the config does not set it.
struct ConfigKeyValueChange {
  std::string key, before, after;
};

struct ExportedConfig {
  std::string text;
  std::vector<std::string> said;              // messages for the user, one per line
  std::vector<ConfigKeyValueChange> changed;  // against the user's own config; empty without one
  bool for_file = true;                       // keys for a config file; otherwise arguments or lines of a program
  const result::TrialResultRow* row =
      nullptr;  // of the report: the row that the keys amount to; nullptr: only keys of saving
};

// Returns comments about the measurement, then the keys, in the form of the trainer's config. JSON has no comments, so
// they are in `said`. `row` must be one of the report's.
//
// The keys match a measured strategy exactly, the trainer accepts them with the user's config, and the strategy fits
// the report's budget. It is the row's own strategy, else the best other one at its batch and sequence. A trial with
// parts without effect is exported as its effective strategy.
//
// If saves were measured and a failure rate is known, keys of saving follow. They are the only keys if no strategy can
// be written. Throws UsageError, with the way out, for an unknown trainer, an unreadable config or a failed trial. Also
// throws if nothing can be written.
ExportedConfig export_config(const std::string& trainer, const result::TrialResultRow& row,
                             const report::Report& report, const ConfigExportReleasesAndUserConfig& settings = {});

}  // namespace memtune::trainer
