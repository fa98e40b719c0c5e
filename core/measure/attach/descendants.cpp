#include "core/measure/attach/descendants.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::attach {
namespace {

struct Entry {
  pid_t parent = 0;
  bool ended = false;
  int64_t started = 0;  // clock ticks since boot
};

// Parses "123 (any name, even with ) and line ends in it) S 45 ...". Returns false if the process is gone.
bool read_entry(const std::filesystem::path& stat, Entry& entry) try {
  const std::string text = read_file(stat);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  if (!(rest >> state >> entry.parent)) return false;
  std::string skipped;
  for (int field = 5; field < 22; ++field) rest >> skipped;
  rest >> entry.started;
  entry.ended = state == 'Z' || state == 'X';
  return true;
} catch (const IoError&) {
  return false;
}

std::map<pid_t, Entry> all_processes() {
  std::map<pid_t, Entry> processes;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = folder.path().filename().string();
    Entry entry;
    if (name.find_first_not_of("0123456789") == std::string::npos && read_entry(folder.path() / "stat", entry))
      processes[static_cast<pid_t>(std::atoi(name.c_str()))] = entry;
  }
  return processes;
}

std::map<pid_t, Entry> running_descendants(std::span<const pid_t> except) {
  const std::map<pid_t, Entry> processes = all_processes();
  const pid_t of = ::getpid();
  const auto descends = [&](pid_t pid) {
    for (size_t steps = 0; steps < processes.size(); ++steps) {
      const auto entry = processes.find(pid);
      if (entry == processes.end() || std::ranges::find(except, pid) != except.end()) return false;
      if (entry->second.parent == of) return true;
      pid = entry->second.parent;
    }
    return false;
  };
  std::map<pid_t, Entry> found;
  for (const auto& each : processes)
    if (!each.second.ended && descends(each.first)) found.insert(each);
  return found;
}

// The descriptor holds on to the process, so that its number cannot go to another one between the look and the signal.
void signal_same(pid_t pid, const Entry& seen, int signal) {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.get() < 0) {
    if (errno == ENOSYS || errno == EPERM) ::kill(pid, signal);
    return;
  }
  Entry now;
  if (read_entry("/proc/" + std::to_string(pid) + "/stat", now) && now.started == seen.started)
    ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
}

}  // namespace

std::vector<pid_t> descendants(std::span<const pid_t> except) {
  std::vector<pid_t> found;
  for (const auto& [pid, entry] : running_descendants(except)) found.push_back(pid);
  return found;
}

std::vector<pid_t> signal_descendants(int signal, std::span<const pid_t> except) {
  std::vector<pid_t> signalled;
  for (const auto& [pid, entry] : running_descendants(except)) {
    signal_same(pid, entry, signal);
    signalled.push_back(pid);
  }
  return signalled;
}

}  // namespace memtune::attach
