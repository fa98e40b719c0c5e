// Runs a command and kills a process of it at the chosen one of its system calls: before the call begins or behind its
// end, on whichever thread it is.
//
//   memtune-kill-at-call REPORT BEGIN END POINT [--without-io-uring] COMMAND...
//
// Points are counted from the first mkdir or rename onto a path that contains BEGIN to the next one onto END, in the
// process that made it: two a call, of all threads, but for calls that only wait or manage memory. REPORT gets a line a
// point, "before fsync", the last of them the one at which the process was killed; POINT 0 kills none. Exits as the
// command does: 128 and the signal's number where one ended it.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>

namespace {

struct Options {
  std::string report, begin, end;
  int64_t point = 0;
  bool without_io_uring = false;
  char** command = nullptr;
};

// Of calls that make what a save is known by: which argument is the path.
const std::map<uint64_t, int> kMakers = {
#ifdef SYS_mkdir
    {SYS_mkdir, 0},
    {SYS_rename, 1},
#endif
    {SYS_mkdirat, 1},
    {SYS_renameat, 3},
    {SYS_renameat2, 3}};

const std::map<uint64_t, const char*> kNames = {
#ifdef SYS_mkdir
    {SYS_mkdir, "mkdir"},
    {SYS_rename, "rename"},
    {SYS_unlink, "unlink"},
    {SYS_rmdir, "rmdir"},
    {SYS_stat, "stat"},
    {SYS_lstat, "lstat"},
    {SYS_readlink, "readlink"},
    {SYS_access, "access"},
#endif
    {SYS_mkdirat, "mkdirat"},
    {SYS_renameat, "renameat"},
    {SYS_renameat2, "renameat2"},
    {SYS_unlinkat, "unlinkat"},
    {SYS_openat, "openat"},
    {SYS_openat2, "openat2"},
    {SYS_newfstatat, "newfstatat"},
    {SYS_fstat, "fstat"},
    {SYS_statx, "statx"},
    {SYS_statfs, "statfs"},
    {SYS_fstatfs, "fstatfs"},
    {SYS_readlinkat, "readlinkat"},
    {SYS_getdents64, "getdents64"},
    {SYS_fcntl, "fcntl"},
    {SYS_read, "read"},
    {SYS_pread64, "pread64"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_pwritev, "pwritev"},
    {SYS_fallocate, "fallocate"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_sync_file_range, "sync_file_range"},
    {SYS_syncfs, "syncfs"},
    {SYS_close, "close"},
    {SYS_io_uring_setup, "io_uring_setup"},
    {SYS_io_uring_enter, "io_uring_enter"},
    {SYS_io_uring_register, "io_uring_register"},
    {SYS_clone3, "clone3"},
    {SYS_exit_group, "exit_group"},
};

// They change nothing that outlives the process.
const std::set<uint64_t> kUncounted = {
    SYS_futex,
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_sched_yield,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_ppoll,
    SYS_getpid,
    SYS_gettid,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_set_robust_list,
    SYS_prctl,
    SYS_getrandom,
    SYS_gettimeofday,
    SYS_clock_gettime,
    SYS_sched_getaffinity,
    SYS_exit,
#ifdef SYS_poll
    SYS_poll,
#endif
};

std::string name_of(uint64_t number) {
  const auto found = kNames.find(number);
  return found == kNames.end() ? "call-" + std::to_string(number) : found->second;
}

// As a kernel or container does that knows none: the program then writes by threads.
void refuse_io_uring() {
  const std::array<sock_filter, 4> code = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_io_uring_setup},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog program{code.size(), const_cast<sock_filter*>(code.data())};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("memtune-kill-at-call: seccomp");
    std::_Exit(125);
  }
}

class Tracer {
 public:
  explicit Tracer(const Options& options) : options_(options), report_(options.report) {}

  int run() {
    child_ = fork();
    if (child_ == 0) become_command();
    int status = 0;
    if (waitpid(child_, &status, 0) != child_ || !WIFSTOPPED(status)) return fail("the command did not start");
    constexpr long kFollow = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                             PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child_, 0, kFollow) != 0) return fail("ptrace is not allowed here");
    threads_[child_].process = child_;
    resume(child_, 0);
    for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;)
      if (thread > 0) take(thread, status);
    return exit_;
  }

 private:
  struct Thread {
    pid_t process = 0;
    uint64_t call = 0;
    bool counts = false;  // the call that it is in
  };

  [[noreturn]] void become_command() const {
    if (options_.without_io_uring) refuse_io_uring();
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    std::raise(SIGSTOP);
    execvp(options_.command[0], options_.command);
    std::perror(options_.command[0]);
    std::_Exit(127);
  }

  static int fail(const char* what) {
    std::cerr << "memtune-kill-at-call: " << what << "\n";
    return 125;
  }

  // A thread that was killed meanwhile is gone: that is told by waitpid.
  static void resume(pid_t thread, int signal) { ptrace(PTRACE_SYSCALL, thread, 0, signal); }

  void take(pid_t thread, int status) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread == child_) exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      threads_.erase(thread);
      return;
    }
    const bool is_new = !threads_.contains(thread);
    if (is_new) threads_[thread].process = process_of(thread);
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      look(thread);
      return resume(thread, 0);
    }
    const bool of_ptrace = status >> 16 != 0 || (is_new && signal == SIGSTOP);
    resume(thread, of_ptrace ? 0 : signal);
  }

  static pid_t process_of(pid_t thread) {
    std::ifstream file("/proc/" + std::to_string(thread) + "/status");
    for (std::string word; file >> word;)
      if (word == "Tgid:" && file >> word) return std::stoi(word);
    return 0;
  }

  void look(pid_t id) {
    __ptrace_syscall_info info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, id, sizeof info, &info) <= 0) return;
    Thread& thread = threads_[id];
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
      thread.call = info.entry.nr;
      mark(id, info.entry);
      thread.counts = process_ != 0 && process_ == thread.process && !kUncounted.contains(thread.call);
      if (thread.counts) count("before ", thread.call);
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && thread.counts && process_ != 0) {
      thread.counts = false;
      count("behind ", thread.call);
    }
  }

  template <typename Entry>
  void mark(pid_t id, const Entry& entry) {
    const auto maker = kMakers.find(entry.nr);
    if (maker == kMakers.end() || over_) return;
    const std::string path = read_text(id, entry.args[maker->second]);
    if (process_ == 0 && path.find(options_.begin) != std::string::npos) process_ = threads_[id].process;
    if (process_ != 0 && path.find(options_.end) != std::string::npos) over_ = true, process_ = 0;
  }

  static std::string read_text(pid_t id, uint64_t address) {
    std::ifstream memory("/proc/" + std::to_string(id) + "/mem", std::ios::binary);
    memory.seekg(static_cast<std::streamoff>(address));
    std::string text;
    std::getline(memory, text, '\0');
    return text;
  }

  void count(const char* when, uint64_t call) {
    if (killed_) return;
    report_ << when << name_of(call) << std::endl;
    if (++points_ != options_.point) return;
    killed_ = true;
    kill(process_, SIGKILL);
  }

  const Options& options_;
  std::ofstream report_;
  std::map<pid_t, Thread> threads_;
  pid_t child_ = 0, process_ = 0;  // process_: whose calls are counted
  bool over_ = false, killed_ = false;
  int64_t points_ = 0;
  int exit_ = 125;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) {
    std::cerr << "memtune-kill-at-call REPORT BEGIN END POINT [--without-io-uring] COMMAND...\n";
    return 125;
  }
  Options options{arguments[1], arguments[2], arguments[3], std::atoll(arguments[4])};
  options.without_io_uring = std::string(arguments[5]) == "--without-io-uring";
  options.command = arguments + (options.without_io_uring ? 6 : 5);
  return Tracer(options).run();
}
