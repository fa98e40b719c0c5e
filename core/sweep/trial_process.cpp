#include "core/sweep/trial_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/trial_protocol.h"
#include "core/sweep/frame_reader.h"
#include "core/sweep/interrupt.h"

extern char** environ;

namespace memtune::sweep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGrace{2000};     // from SIGTERM to SIGKILL
constexpr milliseconds kFarewell{5000};  // from the answer to the end of the process
constexpr milliseconds kTick{100};       // how often limits are looked at
constexpr milliseconds kShortTick{5};    // the same once the pipe is closed: the end is near

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

IoError failed(const std::string& what, int error) { return IoError(what + ": " + std::strerror(error)); }

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

std::vector<char*> c_strings(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// posix_spawn's two settings objects.
struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSettings(int log, int frames) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, frames, config::kFrameDescriptor);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

pid_t spawn(const TrialCommand& command, int frames) {
  Descriptor log(::open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) throw failed("cannot write " + command.log.string(), errno);
  const std::filesystem::path program = find_trial_program();
  std::vector<std::string> arguments = command.arguments;
  arguments.insert(arguments.begin(), program.string());
  std::vector<std::string> environment = trial_environment();
  SpawnSettings settings(log.get(), frames);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &settings.actions, &settings.attributes,
                                c_strings(arguments).data(), c_strings(environment).data());
  if (error != 0) throw failed("cannot run " + program.string(), error);
  return pid;
}

// Ends of a process that this side brought about.
enum class Stop { none, timeout, interrupt, answered };

// A started trial; whatever happens, its group is gone when this is.
class TrialProcess {
 public:
  TrialProcess(const TrialCommand& command, FrameReader& reader)
      : reader_(reader), deadline_(Clock::now() + command.limit) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw failed("cannot make a pipe", errno);
    Descriptor write_end(ends[1]);
    frames_.emplace(ends[0]);
    pid_ = spawn(command, write_end.get());
  }
  ~TrialProcess() {
    if (!status_) {
      signal_group(SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void wait() {
    while (!ended()) {
      listen(frames_->get() < 0 ? kShortTick : kTick);
      if (stop_ == Stop::none) look_for_stop();
      if (stop_ != Stop::none && Clock::now() >= kill_at_) signal_group(SIGKILL);
    }
    while (listen(milliseconds(0))) {  // what it said last
    }
    signal_group(SIGKILL);  // what it left behind
  }
  int status() const { return *status_; }
  Stop stop() const { return stop_; }

 private:
  bool ended() {
    int status = 0;
    if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  }

  // Reads what has come, waiting at most `patience`; false when nothing did.
  bool listen(milliseconds patience) {
    pollfd waiting{frames_->get(), POLLIN, 0};  // a closed descriptor is negative: poll then only waits
    if (poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return false;
    std::array<char, 1 << 16> bytes;
    const ssize_t count = ::read(frames_->get(), bytes.data(), bytes.size());
    if (count <= 0) {
      frames_->close();
      return false;
    }
    reader_.add({bytes.data(), static_cast<size_t>(count)});
    return true;
  }

  void look_for_stop() {
    if (interrupted()) {
      begin_stop(Stop::interrupt, SIGTERM);
    } else if (Clock::now() >= deadline_) {
      begin_stop(reader_.answer() ? Stop::answered : Stop::timeout, SIGTERM);
    } else if (reader_.answer()) {
      deadline_ = std::min(deadline_, Clock::now() + kFarewell);
    }
  }

  void begin_stop(Stop stop, int signal) {
    stop_ = stop;
    kill_at_ = Clock::now() + kGrace;
    signal_group(signal);
  }

  void signal_group(int signal) const { kill(-pid_, signal); }

  FrameReader& reader_;
  std::optional<Descriptor> frames_;
  pid_t pid_ = 0;
  std::optional<int> status_;
  Stop stop_ = Stop::none;
  Clock::time_point deadline_, kill_at_;
};

std::string describe(const Phase& phase) {
  if (phase.name.empty()) return "before its first phase";
  std::string text = "in phase " + phase.name;
  if (phase.steps > 0) text += ", step " + std::to_string(phase.step) + " of " + std::to_string(phase.steps);
  return text;
}

// The last lines of the log on one line: where libraries say why they gave up.
std::string log_tail(const std::filesystem::path& path) {
  constexpr std::streamoff kBytes = 4096;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? std::streamoff{file.tellg()} : 0;
  file.seekg(std::max<std::streamoff>(0, size - kBytes));
  std::vector<std::string> last;
  for (std::string line; std::getline(file, line);) {
    std::erase_if(line, [](unsigned char c) { return c < ' ' || c == 127; });
    if (line = trim(line); !line.empty()) last.push_back(line.substr(0, 160));
    if (last.size() > 2) last.erase(last.begin());
  }
  return last.empty() ? "it said nothing (" + path.string() + " is empty)" : "its last words: " + join(last, " | ");
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

Failure classify_end(int status, const std::string& where, const std::string& details) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    return {result::Outcome::host_oom,
            "killed by the kernel " + where + ", most likely out of host memory; " + details};
  }
  if (WIFSIGNALED(status)) {
    return {result::Outcome::crash,
            signal_name(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ") " + where + "; " + details};
  }
  const int code = WEXITSTATUS(status);
  return {result::Outcome::error,
          "ended with exit code " + std::to_string(code) + " and no result " + where + "; " + details};
}

std::string format_limit(milliseconds limit) {
  std::string text = std::to_string(limit.count() / 1000);
  if (limit.count() % 1000 != 0) text += "." + std::to_string(1000 + limit.count() % 1000).substr(1);
  return text + " s";
}

TrialAnswer judge(const TrialCommand& command, const TrialProcess& process, const FrameReader& reader) {
  if (reader.answer()) return *reader.answer();
  const std::string where = describe(reader.phase());
  if (process.stop() == Stop::interrupt) return Failure{result::Outcome::interrupted, "stopped " + where};
  if (process.stop() == Stop::timeout) {
    return Failure{result::Outcome::timeout, "no end within " + format_limit(command.limit) + ", " + where};
  }
  std::string details = log_tail(command.log);
  if (!reader.damage().empty()) details = reader.damage() + "; " + details;
  return classify_end(process.status(), where, details);
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
