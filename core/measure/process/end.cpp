#include "core/measure/process/end.h"

#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>

namespace memtune::process {
namespace {

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

ProcessFailure classify_kill(std::optional<int64_t> memory_kills, const std::string& where,
                             const std::string& details) {
  if (memory_kills.value_or(1) > 0)
    return {result::TrialOutcome::host_oom,
            "killed by the kernel " + where + ", most likely out of host memory; " + details};
  return {result::TrialOutcome::killed, "SIGKILL from outside " + where + ", not for lack of memory; " + details};
}

}  // namespace

std::optional<int64_t> count_memory_kills() {
  std::ifstream file("/proc/vmstat");
  int64_t count = 0;
  for (std::string name; file >> name >> count;)
    if (name == "oom_kill") return count;
  return std::nullopt;
}

ProcessFailure classify_end(int status, std::optional<int64_t> memory_kills, const std::string& where,
                            const std::string& details) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return classify_kill(memory_kills, where, details);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ)
    return {result::TrialOutcome::disk_full,
            "ended " + where + " by writing a file beyond the limit on their size (ulimit -f); " + details};
  if (WIFSIGNALED(status) && details.find("std::bad_alloc") != std::string::npos)
    return {result::TrialOutcome::host_oom, "out of host memory " + where + "; " + details};
  if (WIFSIGNALED(status)) {
    return {result::TrialOutcome::crash,
            signal_name(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ") " + where + "; " + details};
  }
  const int code = WEXITSTATUS(status);
  return {result::TrialOutcome::error,
          "ended with exit code " + std::to_string(code) + " and no result " + where + "; " + details};
}

}  // namespace memtune::process
