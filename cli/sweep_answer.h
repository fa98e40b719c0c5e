// What a sweep says at its end: the table, files, the trials that it would run.
#pragma once

#include <string>

#include "cli/console.h"
#include "core/sweep/run_directory.h"

namespace memtune::cli {

struct AnswerFlags {
  std::string out, json, csv;  // "": not asked for
  ConsoleFlags console;
};

// Throws UsageError before anything runs.
void check_answer(const AnswerFlags& flags);
void write_answer(const AnswerFlags& flags, report::Report report);  // IoError

// --dry-run: a line each, and behind them what is decided `later`, lines of its own.
void list_trials(const sweep::SweepRecord& record, const std::string& later = "");

}  // namespace memtune::cli
