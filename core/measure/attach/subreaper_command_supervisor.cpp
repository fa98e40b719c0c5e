#include "core/measure/attach/subreaper_command_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "core/base/error.h"
#include "core/measure/attach/descendants.h"
#include "core/measure/process/child.h"
#include "core/measure/process/interrupt.h"

namespace memtune::attach {
namespace {

using process::c_strings;
using process::Pipe;
using process::receive;
using process::write_value;

constexpr char kAsk = 't', kEnd = 'k';
constexpr int kTries = 5000, kBetweenTries_us = 2000;  // a process in a system call may take seconds to die
constexpr int kTriesOfSupervisor = kTries + 1000;

// Message of the supervisor: why the command could not be started, or how it ended.
struct Word {
  int error = 0, status = 0;
};

struct Child {
  char* const* arguments;
  char* const* environment;
  int log, trouble;
};

MEMTUNE_NO_ASAN void become_command(const Child& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if another process kills the supervisor
  ::setpgid(0, 0);
  process::reset_signals();
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool placed = nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(child.log, STDOUT_FILENO) >= 0 &&
                      ::dup2(child.log, STDERR_FILENO) >= 0;
  if (placed) ::execvpe(child.arguments[0], child.arguments, child.environment);
  write_value(child.trouble, errno);
  ::_exit(127);
}

MEMTUNE_NO_ASAN pid_t fork_command(const Child& child) {
  const pid_t pid = ::fork();
  if (pid == 0) become_command(child);
  return pid;
}

// Returns 0 if the command runs, else errno.
int start(Child child, pid_t& pid) {
  Pipe trouble;
  child.trouble = trouble.write.get();
  pid = fork_command(child);
  if (pid < 0) return errno;
  trouble.write = FileDescriptor();
  int error = 0;
  return receive(trouble.read.get(), error) ? error : 0;
}

// Sends SIGKILL until no descendant is left. It looks twice each time: one look can miss a process whose parent ends
// meanwhile. `reap` gets those that were signalled.
template <class Reap>
void end_descendants(std::span<const pid_t> except, Reap reap) {
  for (int tries = 0; tries < kTries; ++tries) {
    std::vector<pid_t> left = signal_descendants(SIGKILL, except);
    for (const pid_t more : signal_descendants(SIGKILL, except)) left.push_back(more);
    if (left.empty()) return;
    ::usleep(kBetweenTries_us);
    reap(left);
  }
}

// Returns when `child` has ended, at once if it is no child, and in any case after a while. `options`: WUNTRACED, to
// return when it was stopped too.
void wait_for(pid_t child, int tries, int options) {
  for (; tries > 0; --tries) {
    const pid_t changed = ::waitpid(child, nullptr, WNOHANG | options);
    if (changed != 0 && !(changed < 0 && errno == EINTR)) return;
    ::usleep(kBetweenTries_us);
  }
}

// Receives the supervisor's first message. If the command stops the supervisor before that, SIGCONT resumes it. Returns
// false if it ended without a message, was stopped too often, or a signal ends the wait for a slow start.
bool hear_first(int told, pid_t supervisor, Word& word) {
  constexpr int kMaxStops = 1000, kLooksAfterSignal = 1000, kBetweenLooks_ms = 2;
  for (int stops = 0, looks = 0; stops < kMaxStops && looks < kLooksAfterSignal;) {
    pollfd waiting{told, POLLIN, 0};
    if (::poll(&waiting, 1, kBetweenLooks_ms) > 0) return receive(told, word);
    looks += process::interrupted() ? 1 : 0;
    int status = 0;
    if (::waitpid(supervisor, &status, WNOHANG | WUNTRACED) != supervisor || !WIFSTOPPED(status)) continue;
    ::kill(supervisor, SIGCONT);
    ++stops;
  }
  word.error = ECANCELED;
  return false;
}

// The supervisor process.
class Subreaper {
 public:
  Subreaper(int orders, int told) : command_pipe_(orders), status_pipe_(told) {
    ::setpgid(0, 0);  // Ctrl-C is only for memtune
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) ::signal(signal, SIG_IGN);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, nullptr);
    ended_ = FileDescriptor(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void watch(const Child& child) {
    if (const int error = start(child, command_)) {
      write_value(status_pipe_, Word{error, 0});
      return;
    }
    write_value(status_pipe_, Word{});
    for (char order = 0; order != kEnd;) {
      pollfd waiting[] = {{command_pipe_, POLLIN, 0}, {ended_.get(), POLLIN, 0}};
      ::poll(waiting, 2, -1);
      signalfd_siginfo info;
      while (::read(ended_.get(), &info, sizeof info) > 0) {
      }
      reap();
      if (waiting[0].revents == 0) continue;
      if (!receive(command_pipe_, order)) order = kEnd, alone_ = true;
      if (order == kAsk) signal_descendants(SIGTERM);
    }
    end_descendants({}, [this](const auto&) { reap(); });
  }
  bool alone() const { return alone_; }

 private:
  void reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
      if (pid == command_) write_value(status_pipe_, Word{0, status});
  }

  int command_pipe_, status_pipe_;
  FileDescriptor ended_;
  pid_t command_ = -1;
  bool alone_ = false;
};

}  // namespace

SubreaperCommandSupervisor::Adoption::Adoption() {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

SubreaperCommandSupervisor::Adoption::~Adoption() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

SubreaperCommandSupervisor::SubreaperCommandSupervisor(const std::vector<std::string>& command,
                                                       const std::vector<std::string>& environment, int log,
                                                       const std::filesystem::path& folder)
    : others_(descendants()) {
  Pipe told;
  int orders[2];  // sockets, because an order to a killed supervisor must not raise SIGPIPE
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0)
    throw system_error("cannot make a socket pair", errno);
  FileDescriptor giving(orders[1]), taking(orders[0]);
  const std::vector<char*> arguments = c_strings(command), variables = c_strings(environment);
  pid_ = ::fork();
  if (pid_ < 0) throw system_error("cannot run " + command.front(), errno);
  if (pid_ == 0) {
    giving = FileDescriptor();
    told.read = FileDescriptor();
    Subreaper between(taking.get(), told.write.get());
    between.watch({arguments.data(), variables.data(), log, -1});
    std::error_code ignored;
    if (between.alone()) std::filesystem::remove_all(folder, ignored);
    ::_exit(0);
  }
  command_pipe_ = std::move(giving);
  status_pipe_ = std::move(told.read);
  told.write = FileDescriptor();
  Word word;
  if (hear_first(status_pipe_.get(), pid_, word) && word.error == 0) return;
  end_all();
  throw UsageError("cannot run '" + command.front() + "': " + std::strerror(word.error));
}

SubreaperCommandSupervisor::~SubreaperCommandSupervisor() { end(); }

std::optional<int> SubreaperCommandSupervisor::status() {
  pollfd waiting{status_pipe_.get(), POLLIN, 0};
  if (!status_ && status_pipe_.get() >= 0 && ::poll(&waiting, 1, 0) > 0) read_status();
  return status_;
}

void SubreaperCommandSupervisor::read_status() {
  Word word;
  // Without a message the supervisor was killed, and the command with it.
  status_ = receive(status_pipe_.get(), word) ? word.status : SIGKILL;
  status_pipe_ = FileDescriptor();
}

void SubreaperCommandSupervisor::terminate() { order(kAsk); }

void SubreaperCommandSupervisor::order(char what) {
  [[maybe_unused]] const ssize_t sent = ::send(command_pipe_.get(), &what, sizeof what, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Nothing is left to do unless the supervisor was killed or stopped.
void SubreaperCommandSupervisor::end_all() {
  std::set<pid_t> killed = {pid_};
  end_descendants(others_, [&](const std::vector<pid_t>& now) { killed.insert(now.begin(), now.end()); });
  for (const pid_t each : killed) wait_for(each, kTries, 0);
  pid_ = -1;
}

void SubreaperCommandSupervisor::end() {
  if (pid_ < 0) return;
  order(kEnd);
  wait_for(pid_, kTriesOfSupervisor, WUNTRACED);  // the command can stop it
  end_all();
  if (!status_ && status_pipe_.get() >= 0) read_status();
}

}  // namespace memtune::attach
