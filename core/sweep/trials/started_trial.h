// A running process of memtune-trial. Its process group never outlives this object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/measure/process/child.h"
#include "core/measure/process/log.h"
#include "core/sweep/trials/frame_reader.h"
#include "core/sweep/trials/rank_trial.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

class StartedTrial final : public RankTrial {
 public:
  // Throws IoError if it cannot be started.
  explicit StartedTrial(const TrialCommand& command);
  ~StartedTrial() override;
  StartedTrial(const StartedTrial&) = delete;
  StartedTrial& operator=(const StartedTrial&) = delete;

  // Also enforces the time limit, and stops it after a signal.
  bool turn(std::chrono::milliseconds patience) override;
  void end() override;
  bool ended_by_others() const override { return stop_ == Stop::others && !reader_.answer(); }

  const Phase& phase() const override { return reader_.phase(); }
  TrialAnswer answer() const override;

 private:
  using Clock = std::chrono::steady_clock;
  // Why this side ended the process.
  enum class Stop { none, timeout, interrupt, answered, others };

  bool ended();
  bool listen(std::chrono::milliseconds patience);
  void look_for_stop();
  void begin_stop(Stop stop, int signal);
  void signal_group(int signal) const;

  FrameReader reader_;
  process::ProcessLog log_;
  process::Pipe frames_, said_;
  std::optional<int64_t> kills_before_;
  pid_t pid_ = 0;
  std::optional<int> status_;
  Stop stop_ = Stop::none;
  std::chrono::milliseconds limit_;
  Clock::time_point deadline_, kill_at_;
  std::chrono::milliseconds grace_;
};

}  // namespace memtune::sweep
