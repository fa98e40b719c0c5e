// Of a training command, which of its trainer's settings are worth a run, and the command under a plan in Python, told
// by trials of memtune's own engines:
//
//   own trials of none and of what the command has now
//     -> the command as it is: what it holds more than they do
//     -> own trials under what that leaves of the budget
//     -> settings that keep it there, the plan
//     -> what broke the budget: a plan for less, settings that take less
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/native_trials.h"
#include "core/sweep/command_sweep.h"

namespace memtune::cli {

// What it changes are strategies alone, so that own trials tell of it.
bool is_about_strategies(const sweep::CommandVariant& variant, std::span<const sweep::CommandVariant> variants);

class PlannedVariants {
 public:
  // `budget_bytes` 0: none. `asked`: for a plan, so that a model that cannot be looked at is refused; else all variants
  // are run then.
  PlannedVariants(NativeTrials& native, std::vector<std::string> strategies, int64_t budget_bytes, bool asked,
                  bool dry_run);

  // sweep::ChooseVariants.
  std::optional<std::vector<std::string>> next(std::span<const sweep::TrialState> tried, sweep::CommandSweep& sweep);

 private:
  using Names = std::vector<std::string>;
  struct Setting {
    std::string name;
    NativeStep step;
  };

  std::optional<Names> begin(sweep::CommandSweep& sweep);
  Names choose(std::span<const sweep::TrialState> tried, sweep::CommandSweep& sweep);
  Names correct(std::span<const sweep::TrialState> tried, sweep::CommandSweep& sweep);
  void measure_difference(const result::Measurement& own, sweep::CommandSweep& sweep);
  void rank_settings(const sweep::CommandSweep& sweep);
  void take(std::vector<Setting>::iterator setting, Names& to);
  void take_fitting(size_t most, Names& to);
  bool keeps(const NativeStep& step) const;
  void take_smaller(Names& to);
  void tell_left_out(sweep::CommandSweep& sweep) const;
  bool run_native(const sweep::CommandSweep& sweep);
  void add_plan(sweep::CommandSweep& sweep, Names& to);
  bool fits(const result::Measurement& measurement) const;
  int64_t native_budget() const { return budget_bytes_ > 0 ? budget_bytes_ - more_bytes_ - broken_bytes_ : 0; }

  NativeTrials& native_;
  const Names strategies_;  // that own trials may be of beside what settings are like
  const int64_t budget_bytes_;
  const bool asked_, dry_run_;
  bool all_ = false;                                           // nothing is chosen
  int64_t more_bytes_ = 0;                                     // that the command holds and own trials do not
  int64_t broken_bytes_ = 0;                                   // by which plans broke the budget
  int64_t host_bytes_ = 0;                                     // that plans may move to; 0: any
  std::vector<Setting> later_;                                 // settings that are not run so far, the best first
  int64_t least_bytes_ = std::numeric_limits<int64_t>::max();  // of own trials of those that are
  Names plans_;                                                // that were run, names of variants
  size_t failed_ = 0;                                          // settings that did and have had another in their place
  int smaller_ = 0;                                            // settings that were run since none kept the budget
};

}  // namespace memtune::cli
