#include "core/sweep/trial_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/process/child.h"
#include "core/process/end.h"
#include "core/process/interrupt.h"
#include "core/process/log.h"
#include "core/sweep/frame_reader.h"
#include "core/sweep/spawn.h"

extern char** environ;

namespace memtune::sweep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLastWords{2000};  // to read what the trial said last
constexpr milliseconds kFarewell{5000};   // from the answer to the end of the process
constexpr milliseconds kTick{100};        // how often limits are looked at
constexpr milliseconds kShortTick{5};     // the same once the pipes are closed: the end is near

std::vector<std::string> trial_environment() {
  std::vector<std::string> variables;
  bool workspace_set = false, waiting_set = false;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("KINETO_USE_DAEMON=")) continue;  // would start a second user of CUPTI
    workspace_set |= text.starts_with("CUBLAS_WORKSPACE_CONFIG=");
    waiting_set |= text.starts_with("OMP_WAIT_POLICY=") || text.starts_with("GOMP_SPINCOUNT=");
    variables.emplace_back(text);
  }
  if (!workspace_set) variables.emplace_back("CUBLAS_WORKSPACE_CONFIG=:4096:8");  // deterministic cuBLAS
  // Threads that spin while they wait take the cores from those they wait for: on a busy machine a step of 20 ms
  // becomes one of seconds.
  if (!waiting_set) variables.emplace_back("OMP_WAIT_POLICY=passive");
  return variables;
}

std::vector<std::string> words_of(const TrialCommand& command) {
  std::vector<std::string> words = command.arguments;
  words.insert(words.begin(), find_trial_program().string());
  return words;
}

// Ends of a process that this side brought about.
enum class Stop { none, timeout, interrupt, answered };

// A started trial; whatever happens, its group is gone when this is.
class TrialProcess {
 public:
  TrialProcess(const TrialCommand& command, FrameReader& reader)
      : reader_(reader),
        log_(command.log, command.files ? *command.files : system_files()),
        kills_before_(process::count_memory_kills()),
        deadline_(Clock::now() + command.limit),
        grace_(command.grace) {
    pid_ = spawn(words_of(command), trial_environment(), said_.write.get(), frames_.write.get());
    said_.write = Descriptor();
    frames_.write = Descriptor();
  }
  ~TrialProcess() {
    if (!status_) {
      signal_group(SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void wait() {
    while (!ended()) {
      listen(is_open(frames_) || is_open(said_) ? kTick : kShortTick);
      if (stop_ == Stop::none) look_for_stop();
      if (stop_ != Stop::none && Clock::now() >= kill_at_) signal_group(SIGKILL);
    }
    signal_group(SIGKILL);  // what it left behind
    const auto patience = Clock::now() + kLastWords;
    while (listen(milliseconds(0)) && Clock::now() < patience) {  // what it said last
    }
    log_.finish();
  }
  int status() const { return *status_; }
  Stop stop() const { return stop_; }
  const process::ProcessLog& log() const { return log_; }
  std::optional<int64_t> memory_kills() const {
    const std::optional<int64_t> now = process::count_memory_kills();
    return kills_before_ && now ? std::optional(*now - *kills_before_) : std::nullopt;
  }

 private:
  static bool is_open(const process::Pipe& pipe) { return pipe.read.get() >= 0; }

  bool ended() {
    int status = 0;
    if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  }

  // Reads what has come, waiting at most `patience`; false when nothing did.
  bool listen(milliseconds patience) {
    std::array<pollfd, 2> waiting{{{frames_.read.get(), POLLIN, 0}, {said_.read.get(), POLLIN, 0}}};
    if (poll(waiting.data(), waiting.size(), static_cast<int>(patience.count())) <= 0) return false;
    const bool framed =
        waiting[0].revents != 0 && take(frames_, [this](std::string_view bytes) { reader_.add(bytes); });
    const bool said = waiting[1].revents != 0 && take(said_, [this](std::string_view bytes) { log_.add(bytes); });
    return framed || said;
  }

  template <class Use>
  static bool take(process::Pipe& pipe, const Use& use) {
    std::array<char, 1 << 16> bytes;
    const ssize_t count = ::read(pipe.read.get(), bytes.data(), bytes.size());
    if (count > 0) use({bytes.data(), static_cast<size_t>(count)});
    if (count <= 0) pipe.read = Descriptor();  // poll then only waits for the other
    return count > 0;
  }

  void look_for_stop() {
    if (process::interrupted()) {
      begin_stop(Stop::interrupt, SIGTERM);
    } else if (Clock::now() >= deadline_) {
      begin_stop(reader_.answer() ? Stop::answered : Stop::timeout, SIGTERM);
    } else if (reader_.answer()) {
      deadline_ = std::min(deadline_, Clock::now() + kFarewell);
    }
  }

  void begin_stop(Stop stop, int signal) {
    stop_ = stop;
    kill_at_ = Clock::now() + grace_;
    signal_group(signal);
  }

  void signal_group(int signal) const { kill(-pid_, signal); }

  FrameReader& reader_;
  process::ProcessLog log_;
  process::Pipe frames_, said_;
  std::optional<int64_t> kills_before_;
  pid_t pid_ = 0;
  std::optional<int> status_;
  Stop stop_ = Stop::none;
  Clock::time_point deadline_, kill_at_;
  milliseconds grace_;
};

std::string format_limit(milliseconds limit) {
  std::string text = std::to_string(limit.count() / 1000);
  if (limit.count() % 1000 != 0) text += "." + std::to_string(1000 + limit.count() % 1000).substr(1);
  return text + " s";
}

// "in phase measure, step 2 of 5"
std::string describe(const Phase& phase) {
  if (phase.name.empty()) return "before its first phase";
  std::string text = "in phase " + phase.name;
  if (phase.steps > 0) text += ", step " + std::to_string(phase.step) + " of " + std::to_string(phase.steps);
  return text;
}

TrialAnswer judge(const TrialCommand& command, const TrialProcess& process, const FrameReader& reader) {
  if (reader.answer()) return *reader.answer();
  const std::string where = describe(reader.phase());
  if (process.stop() == Stop::interrupt) return Failure{result::Outcome::interrupted, "stopped " + where};
  if (process.stop() == Stop::timeout) {
    return Failure{result::Outcome::timeout, "no end within " + format_limit(command.limit) + ", " + where};
  }
  std::string details = process.log().last_words();
  if (!reader.damage().empty()) details = reader.damage() + "; " + details;
  return process::classify_end(process.status(), process.memory_kills(), where, details);
}

}  // namespace

std::filesystem::path find_trial_program() {
  if (const char* path = std::getenv("MEMTUNE_TRIAL"); path && *path) {
    if (access(path, X_OK) != 0) throw UsageError(std::string("MEMTUNE_TRIAL=") + path + " is no program");
    return path;
  }
  const std::filesystem::path folder = executable_path().parent_path();
  for (const auto& path : {folder / "memtune-trial", folder / "../libexec/memtune/memtune-trial"}) {
    if (access(path.c_str(), X_OK) == 0) return path.lexically_normal();
  }
  throw UsageError("memtune-trial, which runs the trials, is neither in " + folder.string() + " nor in " +
                   (folder / "../libexec/memtune").lexically_normal().string() +
                   "; build with MEMTUNE_TORCH=ON or set MEMTUNE_TRIAL to its path");
}

TrialAnswer run_trial_process(const TrialCommand& command) {
  FrameReader reader(command.progress);
  TrialProcess process(command, reader);
  process.wait();
  return judge(command, process, reader);
}

}  // namespace memtune::sweep
