#include "core/sweep/trials/local_rank_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/base/layout.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/trials/prestarted_trial_process.h"

namespace memtune::sweep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDrainTime{2000};      // to read the rest of its output
constexpr milliseconds kShutdownGrace{5000};  // from the answer to the end of the process
constexpr milliseconds kShortTick{5};         // once the pipes are closed, because the process will end soon

// memtune-trial holds for one minor release of PyTorch: the loader misses symbols of another one's LibTorch, and ends
// the process before its main().
bool lacks_symbols(int status, const TrialPhaseProgress& phase, const std::string& log) {
  constexpr int kLoaderFailed = 127;
  return WIFEXITED(status) && WEXITSTATUS(status) == kLoaderFailed && phase.name.empty() &&
         log.find("symbol") != std::string::npos;
}

constexpr const char* kOtherTorch =
    "memtune-trial is built for another minor release of PyTorch than the LibTorch that it found: unset "
    "LD_LIBRARY_PATH, or build memtune again with scripts/memtune";

// "in phase measure, step 2 of 5"
std::string describe(const TrialPhaseProgress& phase) {
  if (phase.name.empty()) return "before its first phase";
  std::string text = "in phase " + phase.name;
  if (phase.steps > 0) text += ", step " + std::to_string(phase.step) + " of " + std::to_string(phase.steps);
  return text;
}

bool is_open(const FileDescriptor& pipe) { return pipe.get() >= 0; }

template <class Use>
bool take(FileDescriptor& pipe, const Use& use) {
  std::array<char, 1 << 16> bytes;
  const ssize_t count = ::read(pipe.get(), bytes.data(), bytes.size());
  if (count > 0) use({bytes.data(), static_cast<size_t>(count)});
  if (count <= 0) pipe = FileDescriptor();  // poll then ignores this pipe
  return count > 0;
}

TrialPidAndPipes started(const TrialProcessSettings& command) {
  if (command.spare)
    if (std::optional<TrialPidAndPipes> spare = command.spare->take(command.arguments, command.threads))
      return std::move(*spare);
  return start_trial(command.arguments, command.threads, command.rendezvous);
}

}  // namespace

LocalRankProcess::LocalRankProcess(const TrialProcessSettings& command)
    : reader_(command.progress),
      log_(command.log, command.files ? *command.files : system_files()),
      kills_before_(process::count_memory_kills()),
      memory_(command.available_memory),
      limit_(command.limit),
      deadline_(Clock::now() + command.limit),
      grace_(command.grace) {
  TrialPidAndPipes process = started(command);
  pid_ = process.pid;
  frames_ = std::move(process.frames);
  said_ = std::move(process.said);
}

LocalRankProcess::~LocalRankProcess() {
  if (!status_) {
    signal_group(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

bool LocalRankProcess::poll_output(milliseconds timeout) {
  if (ended()) return false;
  listen(is_open(frames_) || is_open(said_) ? timeout : std::min(timeout, kShortTick));
  if (stop_ == CommandKillReason::none) look_for_stop();
  if (stop_ != CommandKillReason::none && Clock::now() >= kill_at_) signal_group(SIGKILL);
  return !ended();
}

bool LocalRankProcess::ended() {
  int status = 0;
  if (status_) return true;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  status_ = status;
  signal_group(SIGKILL);  // processes it left behind
  const auto until = Clock::now() + kDrainTime;
  while (listen(milliseconds(0)) && Clock::now() < until) {  // the rest of its output
  }
  log_.finish();
  return true;
}

bool LocalRankProcess::listen(milliseconds timeout) {
  std::array<pollfd, 2> waiting{{{frames_.get(), POLLIN, 0}, {said_.get(), POLLIN, 0}}};
  if (poll(waiting.data(), waiting.size(), static_cast<int>(timeout.count())) <= 0) return false;
  const bool framed = waiting[0].revents != 0 && take(frames_, [this](std::string_view bytes) { reader_.add(bytes); });
  const bool said = waiting[1].revents != 0 && take(said_, [this](std::string_view bytes) { log_.add(bytes); });
  return framed || said;
}

void LocalRankProcess::look_for_stop() {
  if (process::interrupted()) {
    begin_stop(CommandKillReason::interrupt, SIGTERM);
  } else if (memory_.is_short()) {
    begin_stop(CommandKillReason::memory, SIGKILL);
  } else if (Clock::now() >= deadline_) {
    begin_stop(reader_.answer() ? CommandKillReason::answered : CommandKillReason::timeout, SIGTERM);
  } else if (reader_.answer()) {
    deadline_ = std::min(deadline_, Clock::now() + kShutdownGrace);
  }
}

void LocalRankProcess::begin_stop(CommandKillReason stop, int signal) {
  stop_ = stop;
  kill_at_ = Clock::now() + grace_;
  signal_group(signal);
}

void LocalRankProcess::end() {
  if (status_ || stop_ == CommandKillReason::others) return;
  begin_stop(CommandKillReason::others, SIGKILL);
}

void LocalRankProcess::signal_group(int signal) const { kill(-pid_, signal); }

TrialAnswer LocalRankProcess::answer() const {
  if (reader_.answer()) return *reader_.answer();
  const std::string where = describe(reader_.phase());
  if (stop_ == CommandKillReason::interrupt)
    return ProcessFailure{result::TrialOutcome::interrupted, "stopped " + where};
  if (stop_ == CommandKillReason::others)
    return ProcessFailure{result::TrialOutcome::interrupted, "stopped with the other ranks " + where};
  if (stop_ == CommandKillReason::timeout)
    return ProcessFailure{result::TrialOutcome::timeout, "no end within " + seconds_text(limit_) + ", " + where};
  if (stop_ == CommandKillReason::memory)
    return ProcessFailure{result::TrialOutcome::host_oom,
                          "ended " + where + ", because of host memory: " + memory_.reason()};
  std::string details = log_.log_tail();
  if (lacks_symbols(*status_, reader_.phase(), details)) return ReceivedUsageError{kOtherTorch};
  if (!reader_.damage().empty()) details = reader_.damage() + "; " + details;
  const std::optional<int64_t> now = process::count_memory_kills();
  return process::classify_end(*status_, kills_before_ && now ? std::optional(*now - *kills_before_) : std::nullopt,
                               where, details);
}

}  // namespace memtune::sweep
