// A trial as the keys of the trainer in use. Only keys that the release named really acts on, and only of what was
// measured; where it has no counterpart the best measured one that fits is written, and what that gives away is said.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/report/report.h"

namespace memtune::trainer {

std::span<const std::string> trainers();  // "torchtune", "axolotl", ...

struct ExportSettings {
  std::map<std::string, std::string> releases = {};  // by package, "" for the trainer itself; else the profile's
  std::string text = {}, name = {};                  // the user's own config, which is written with the keys in it
};

struct Export {
  std::string text;
  std::vector<std::string> said;     // what the person should know at once: a line each
  bool for_file = true;              // of keys, into which they can be put; else arguments, or lines of a program
  const result::Row* row = nullptr;  // of the report, that the keys amount to; nullptr: they are of saving alone
};

// In the form of the trainer's configuration: comments on what was measured (but in JSON, which has none: they are
// among what is said), then the keys. `row` is one of the report's. Keys are written for a strategy that was measured,
// that they amount to exactly, that the trainer takes beside what the user's own config says, and that keeps the
// report's budget: the row's own, else the best of the others at its batch and sequence. A trial of which a
// part did nothing is written as what it amounts to. UsageError for an unknown trainer, a config that it does not read,
// a trial that failed and where nothing can be written so, with the way out. Where saves were measured and a rate of
// failures is known, the keys of saving follow; where nothing else can be written, they are all.
Export export_config(const std::string& trainer, const result::Row& row, const report::Report& report,
                     const ExportSettings& settings = {});

}  // namespace memtune::trainer
