// The end of a sweep: table, files, and the list of trials for --dry-run.
#pragma once

#include <string>

#include "cli/console.h"
#include "core/answer/run/run_directory.h"

namespace memtune::cli {

struct AnswerFlags {
  std::string out, json, csv;  // "": not requested
  ConsoleFlags console;
};

// Checks paths before anything runs. Throws UsageError.
void check_answer(const AnswerFlags& flags);
void write_answer(const AnswerFlags& flags, report::Report report);  // IoError

// For --dry-run: one line per trial, followed by the lines of `later`, which say what is chosen later.
void list_trials(const sweep::SweepJsonSettingsFactsAndTrials& record, const std::string& later = "");

}  // namespace memtune::cli
