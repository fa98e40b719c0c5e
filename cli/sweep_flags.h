// The flags of memtune sweep, and the settings that they define.
#pragma once

#include <string>
#include <vector>

#include "cli/command_sweep.h"
#include "cli/model_flags.h"
#include "cli/sweep_answer.h"
#include "cli/trainer_config.h"
#include "core/sweep/loop/sweep.h"

namespace memtune::cli {

struct SweepFlags {
  ModelFlags model;
  std::vector<std::string> strategies, plans, tries, allowed;
  std::string sweep, global_batch, budget, goal = "throughput", rounds, saves, mtbf, keep_last, json, csv;
  std::string time_limit, trainer, config, like;
  bool retry = false, dry_run = false, measure_saves = false, all_settings = false;
  TrainerConfig own;  // of --config
};

AnswerFlags answer_flags(const SweepFlags& flags);

// For a model. Throws UsageError before the model is read.
sweep::EngineSweepSettings sweep_settings(const SweepFlags& flags);

// Chooses the trials: all strategies, the largest batch of each, or the best plan for a budget.
sweep::TrialProposerFactory proposer(const SweepFlags& flags, const sweep::EngineSweepSettings& settings);

// Text for trials that a dry run cannot list; "" if it lists all.
std::string decided_later(const SweepFlags& flags, const sweep::EngineSweepSettings& settings);

// Whether a plan is made for the command after "--". Then the flags of a model apply too.
bool plans_for_command(const SweepFlags& flags);
// For the command after "--". `app` holds the flags; the trainer's config sets those that were not given.
CommandSweepFlags command_sweep(SweepFlags& flags, const std::vector<std::string>& command, CLI::App& app);

}  // namespace memtune::cli
