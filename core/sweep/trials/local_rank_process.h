// A running process of memtune-trial. Its process group never outlives this object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/base/file.h"
#include "core/measure/process/host_memory_shortage_detector.h"
#include "core/measure/process/log.h"
#include "core/sweep/trials/local_or_remote_rank_trial_process.h"
#include "core/sweep/trials/trial_output_frame_parser.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

class LocalRankProcess final : public LocalOrRemoteRankTrialProcess {
 public:
  // Throws IoError if it cannot be started.
  explicit LocalRankProcess(const TrialProcessSettings& command);
  ~LocalRankProcess() override;
  LocalRankProcess(const LocalRankProcess&) = delete;
  LocalRankProcess& operator=(const LocalRankProcess&) = delete;

  // Also enforces the time limit, ends it if host memory is short, and stops it after a signal.
  bool poll_output(std::chrono::milliseconds timeout) override;
  void end() override;
  bool answered() const { return reader_.answer().has_value(); }
  bool stopped_by_other_rank() const override { return stop_ == CommandKillReason::others && !reader_.answer(); }

  const TrialPhaseProgress& phase() const override { return reader_.phase(); }
  TrialAnswer answer() const override;

 private:
  using Clock = std::chrono::steady_clock;
  // Why this side ended the process.
  enum class CommandKillReason { none, timeout, interrupt, answered, others, memory };

  bool ended();
  bool listen(std::chrono::milliseconds timeout);
  void look_for_stop();
  void begin_stop(CommandKillReason stop, int signal);
  void signal_group(int signal) const;

  TrialOutputFrameParser reader_;
  process::ProcessLog log_;
  FileDescriptor frames_, said_;
  std::optional<int64_t> kills_before_;
  process::HostMemoryShortageDetector memory_;
  pid_t pid_ = 0;
  std::optional<int> status_;
  CommandKillReason stop_ = CommandKillReason::none;
  std::chrono::milliseconds limit_;
  Clock::time_point deadline_, kill_at_;
  std::chrono::milliseconds grace_;
};

}  // namespace memtune::sweep
