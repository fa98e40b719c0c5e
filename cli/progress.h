// What a sweep is doing: a line for each trial that has ended, and on a terminal below them one that is drawn again and
// again.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "core/result/predicted.h"
#include "core/sweep/sweep.h"

namespace memtune::cli {

class Progress : public sweep::SweepListener {
 public:
  explicit Progress(const ConsoleFlags& flags);
  ~Progress() override;

  void noted(const std::string& note) override;
  void inspecting(const sweep::Phase& phase) override;
  void planned(const std::vector<sweep::TrialSpec>& trials, size_t reused, size_t runs) override;
  void planning(size_t budget, size_t budgets) override;  // of none yet: 0
  void started(const sweep::TrialSpec& trial, int round) override;
  void phase(const sweep::Phase& phase) override;
  void ended(const result::Measurement& measurement) override;
  void save_started(const std::string& mode, size_t left) override;
  void save_ended(const result::SaveMeasurement& save) override;

  // Takes the line away, so that what follows starts clean.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void tell_end(const std::string& outcome);
  void draw(const std::string& what, const sweep::Phase& phase);
  void draw(const std::string& line);
  std::string count(size_t trial) const;  // "[ 3/10] "
  std::string remaining_time() const;

  ConsoleFlags flags_;
  bool terminal_;
  bool drawn_ = false;
  size_t to_run_ = 0, ended_ = 0;
  std::string current_;
  std::optional<result::Predicted> predicted_;  // of it
  Clock::time_point first_start_ = Clock::now(), last_end_ = Clock::now();
};

}  // namespace memtune::cli
