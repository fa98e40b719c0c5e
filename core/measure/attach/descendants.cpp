#include "core/measure/attach/descendants.h"

#include <signal.h>

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
};

// Parses "123 (any name, even with ) and line ends in it) S 45 ...". Returns false if the process is gone.
bool read_entry(const std::filesystem::path& stat, Entry& entry) try {
  const std::string text = read_file(stat);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  if (!(rest >> state >> entry.parent)) return false;
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

}  // namespace

std::vector<pid_t> descendants(pid_t of) {
  const std::map<pid_t, Entry> processes = all_processes();
  std::vector<pid_t> found;
  const auto descends = [&](pid_t pid) {
    for (size_t steps = 0; steps < processes.size(); ++steps) {
      const auto entry = processes.find(pid);
      if (entry == processes.end()) return false;
      if (entry->second.parent == of) return true;
      pid = entry->second.parent;
    }
    return false;
  };
  for (const auto& [pid, entry] : processes)
    if (!entry.ended && descends(pid)) found.push_back(pid);
  return found;
}

int signal_descendants(int signal, pid_t of) {
  const std::vector<pid_t> all = descendants(of);
  for (const pid_t pid : all) ::kill(pid, signal);
  return static_cast<int>(all.size());
}

}  // namespace memtune::attach
