// A process of memtune-trial that runs; whatever happens, its group is gone when this is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/process/child.h"
#include "core/process/log.h"
#include "core/sweep/frame_reader.h"
#include "core/sweep/trial_process.h"

namespace memtune::sweep {

class StartedTrial {
 public:
  // Throws IoError when it cannot be started at all.
  explicit StartedTrial(const TrialCommand& command);
  ~StartedTrial();
  StartedTrial(const StartedTrial&) = delete;
  StartedTrial& operator=(const StartedTrial&) = delete;

  // Hears what it says, for at most `patience`, and keeps it within its limits; false: it has ended.
  bool turn(std::chrono::milliseconds patience);
  // At once, because of others.
  void end();
  bool ended_by_others() const { return stop_ == Stop::others && !reader_.answer(); }

  const Phase& phase() const { return reader_.phase(); }
  // Of one that has ended.
  TrialAnswer answer() const;

 private:
  using Clock = std::chrono::steady_clock;
  // Ends of a process that this side brought about.
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
