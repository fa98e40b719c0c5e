// Chooses the variants of a training command to run: settings of its trainer, and a plan in Python. Trials of memtune's
// own engines choose them.
//
//   own trials of `none` and of the command's current settings
//     -> run the command as it is: how much more memory it holds than the own trials
//     -> own trials under the rest of the budget
//     -> run the settings that fit there, and the plan
//     -> if something exceeded the budget: a plan for less, settings that need less
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/sweep/commands/command_sweep.h"
#include "core/sweep/commands/training_command_model_engine_trial_runner.h"

namespace memtune::sweep {

// Whether the variant only changes strategies, so that own trials predict it.
bool is_about_strategies(const CommandVariant& variant, std::span<const CommandVariant> variants);

class EngineGuidedVariantSelector {
 public:
  // `budget_bytes` 0: no budget. `asked`: the user asked for a plan, so a model that cannot be inspected is an error.
  // Otherwise all variants run then.
  EngineGuidedVariantSelector(TrainingCommandModelEngineTrialRunner& native, std::vector<std::string> strategies,
                              int64_t budget_bytes, bool asked, bool dry_run);

  // Implements ChooseVariants.
  std::optional<std::vector<std::string>> next(std::span<const SweepTrialAndMeasurement> tried,
                                               CommandSweepSettingsAndVariants& sweep);

 private:
  using Names = std::vector<std::string>;
  struct Setting {
    std::string name;
    EngineMeasuredOrSimulatedStepTimeAndPeak step;
  };
  struct Plans {
    Names names = {};            // of the variants with a plan that ran
    int64_t last_own_bytes = 0;  // own peak of the last plan
  };

  std::optional<Names> begin(CommandSweepSettingsAndVariants& sweep);
  Names choose(std::span<const SweepTrialAndMeasurement> tried, CommandSweepSettingsAndVariants& sweep);
  Names correct(std::span<const SweepTrialAndMeasurement> tried, CommandSweepSettingsAndVariants& sweep);
  void measure_difference(const result::TrialMeasurement& own, CommandSweepSettingsAndVariants& sweep);
  void rank_settings(const CommandSweepSettingsAndVariants& sweep);
  void take(std::vector<Setting>::iterator setting, Names& to);
  void take_fitting(size_t most, Names& to);
  bool keeps(const EngineMeasuredOrSimulatedStepTimeAndPeak& step) const;
  void take_smaller(Names& to);
  void add_skipped_notes(CommandSweepSettingsAndVariants& sweep) const;
  bool run_native(const CommandSweepSettingsAndVariants& sweep);
  void add_plan(CommandSweepSettingsAndVariants& sweep, Names& to);
  bool fits(const result::TrialMeasurement& measurement) const;
  int64_t native_budget() const { return budget_bytes_ > 0 ? budget_bytes_ - more_bytes_ - broken_bytes_ : 0; }

  TrainingCommandModelEngineTrialRunner& native_;
  const Names strategies_;  // strategies to try natively besides those the settings map to
  const int64_t budget_bytes_;
  const bool asked_, dry_run_;
  bool all_ = false;                                           // run all variants, without a choice
  int64_t more_bytes_ = 0;                                     // held by the command, but not by own trials
  int64_t broken_bytes_ = 0;                                   // by how much plans exceeded the budget
  int64_t host_bytes_ = 0;                                     // limit of host memory for plans; 0: no limit
  std::vector<Setting> later_;                                 // settings not run so far, the best first
  int64_t least_bytes_ = std::numeric_limits<int64_t>::max();  // smallest own peak of the settings that ran
  Plans plans_;
  size_t failed_ = 0;  // settings that failed and were replaced
  int smaller_ = 0;    // settings that ran because none fit the budget
};

}  // namespace memtune::sweep
