#include "core/sweep/trials/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/measure/process/child.h"
#include "core/plan/request/trial_protocol.h"

namespace memtune::sweep {
namespace {

// A copy above the fixed descriptors of the child, in case this process was started without some of those.
FileDescriptor high_copy(int file) {
  const int copy = ::fcntl(file, F_DUPFD_CLOEXEC, plan::kRendezvousDescriptor + 1);
  if (copy < 0) throw system_error("cannot copy a descriptor", errno);
  return FileDescriptor(copy);
}

#if defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

rlim_t memory_of_the_machine() {
  if (kSanitized) return RLIM_INFINITY;  // shadow memory of the sanitizers is larger than any machine
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<rlim_t>(pages) * static_cast<rlim_t>(bytes) : RLIM_INFINITY;
}

struct Child {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int input, log, frames, rendezvous, trouble;
  pid_t parent;
  rlim_t memory;
};

void lower_limit(decltype(RLIMIT_CORE) what, rlim_t most) {
  rlimit limit{};
  if (::getrlimit(what, &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  ::setrlimit(what, &limit);
}

// Runs between fork and exec, so it makes only system calls and allocates no memory.
MEMTUNE_NO_ASAN void become_trial(const Child& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(1);  // the parent died before prctl
  ::setpgid(0, 0);
  process::reset_signals();
  lower_limit(RLIMIT_CORE, 0);
  lower_limit(RLIMIT_DATA, child.memory);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const bool placed = ::dup2(child.input, STDIN_FILENO) >= 0 && ::dup2(child.log, STDOUT_FILENO) >= 0 &&
                      ::dup2(child.log, STDERR_FILENO) >= 0 && ::dup2(child.frames, plan::kFrameDescriptor) >= 0 &&
                      (child.rendezvous < 0 || ::dup2(child.rendezvous, plan::kRendezvousDescriptor) >= 0);
  if (placed) ::execve(child.program, child.arguments, child.environment);
  process::write_value(child.trouble, errno);
  ::_exit(1);
}

MEMTUNE_NO_ASAN pid_t fork_trial(const Child& child) {
  const pid_t pid = ::fork();
  if (pid == 0) become_trial(child);
  return pid;
}

}  // namespace

pid_t spawn(std::vector<std::string> command, std::vector<std::string> environment, int log, int frames, int rendezvous,
            int input) {
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.get() < 0) throw system_error("cannot open /dev/null", errno);
  process::Pipe trouble;
  trouble.write = high_copy(trouble.write.get());
  const FileDescriptor high_input = high_copy(input < 0 ? nothing.get() : input), high_log = high_copy(log),
                       high_frames = high_copy(frames),
                       high_rendezvous = rendezvous < 0 ? FileDescriptor() : high_copy(rendezvous);
  const std::vector<char*> arguments = process::c_strings(command), variables = process::c_strings(environment);
  const Child child{
      command.front().c_str(), arguments.data(),      variables.data(),    high_input.get(), high_log.get(),
      high_frames.get(),       high_rendezvous.get(), trouble.write.get(), ::getpid(),       memory_of_the_machine()};
  const pid_t pid = fork_trial(child);
  if (pid < 0) throw system_error("cannot run " + command.front(), errno);
  ::setpgid(pid, pid);               // before anything signals the group
  trouble.write = FileDescriptor();  // only the child has it now, so exec closes it
  int error = 0;
  if (!process::receive(trouble.read.get(), error)) return pid;
  ::waitpid(pid, nullptr, 0);
  throw system_error("cannot run " + command.front(), error);
}

}  // namespace memtune::sweep
