// Progress of a sweep: a line per finished trial and, on a terminal, a status line below that is redrawn.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/run_folder.h"
#include "core/record/measurement/trial_prediction.h"
#include "core/sweep/loop/sweep.h"

namespace memtune::cli {

class Progress : public sweep::SweepListener {
 public:
  // `folder` (may be null): of the run; its begin() is called for each trial.
  explicit Progress(const ConsoleFlags& flags, const RunFolder* folder = nullptr);
  ~Progress() override;

  void noted(const std::string& note) override;
  void inspecting(const sweep::TrialPhaseProgress& phase) override;
  void planned(const std::vector<sweep::SweepTrialEntry>& trials, size_t reused, size_t runs) override;
  void planning(size_t budget, size_t budgets) override;  // 0: not started
  void started(const sweep::SweepTrialEntry& trial, int round) override;
  void phase(const sweep::TrialPhaseProgress& phase) override;
  void printed(std::string_view text) override;  // goes to stderr as it is
  void ended(const result::TrialMeasurement& measurement) override;
  void save_started(const std::string& mode, size_t left) override;
  void save_ended(const result::StateSaveModeMeasurement& save) override;

  // Removes the status line and ends a line that a command began, so that other output starts on an empty line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void print_end(const std::string& outcome);
  void draw(const std::string& what, const sweep::TrialPhaseProgress& phase);
  void draw(const std::string& line);
  void erase();
  std::string count(size_t trial) const;  // "[ 3/10] "
  std::string remaining_time() const;

  ConsoleFlags flags_;
  const RunFolder* folder_;
  bool terminal_;
  bool drawn_ = false, within_line_ = false;  // within_line_: of a command, which the status line must not hide
  size_t to_run_ = 0, ended_ = 0;
  std::string current_, status_;
  std::optional<result::TrialPrediction> predicted_;  // of the current trial
  Clock::time_point first_start_ = Clock::now(), last_end_ = Clock::now();
};

}  // namespace memtune::cli
