// The flags of memtune sweep, and what they ask of a sweep.
#pragma once

#include <string>
#include <vector>

#include "cli/command_sweep.h"
#include "cli/model_flags.h"
#include "cli/sweep_answer.h"
#include "cli/trainer_config.h"
#include "core/sweep/sweep.h"

namespace memtune::cli {

struct SweepFlags {
  ModelFlags model;
  std::vector<std::string> strategies, plans, tries, allowed;
  std::string sweep, global_batch, budget, goal = "throughput", rounds = "3", saves, mtbf, keep_last, json, csv;
  std::string time_limit, trainer, config, like;
  bool retry = false, dry_run = false, measure_saves = false, all_settings = false;
  TrainerConfig own;  // of --config
};

AnswerFlags answer_flags(const SweepFlags& flags);

// Of a model: UsageError for what cannot be, before a model is read.
sweep::SweepSettings sweep_settings(const SweepFlags& flags);

// Who says what is tried: all strategies, the largest batch of each, or the best plan for a budget.
sweep::MakeProposer proposer(const SweepFlags& flags, const sweep::SweepSettings& settings);

// What a dry run cannot list: "" where it lists all.
std::string decided_later(const SweepFlags& flags, const sweep::SweepSettings& settings);

// Whether the command behind "--" is to be planned for: then the flags of a model go with it.
bool plans_for_command(const SweepFlags& flags);
// Of the command behind "--", likewise; `app` has the flags, which the config sets where nobody gave them.
CommandSweepFlags command_sweep(SweepFlags& flags, const std::vector<std::string>& command, CLI::App& app);

}  // namespace memtune::cli
