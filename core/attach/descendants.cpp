#include "core/attach/descendants.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace memtune::attach {
namespace {

struct Entry {
  pid_t parent = 0;
  bool ended = false;
};

// "123 (any name, even with ) in it) S 45 ..."
bool read_entry(const std::filesystem::path& stat, Entry& entry) {
  std::ifstream file(stat);
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  if (!(rest >> state >> entry.parent)) return false;
  entry.ended = state == 'Z' || state == 'X';
  return true;
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

std::vector<pid_t> descendants() {
  const std::map<pid_t, Entry> processes = all_processes();
  std::vector<pid_t> found;
  const auto descends = [&](pid_t pid) {
    for (size_t steps = 0; steps < processes.size(); ++steps) {
      const auto entry = processes.find(pid);
      if (entry == processes.end()) return false;
      if (entry->second.parent == ::getpid()) return true;
      pid = entry->second.parent;
    }
    return false;
  };
  for (const auto& [pid, entry] : processes)
    if (!entry.ended && descends(pid)) found.push_back(pid);
  return found;
}

int signal_descendants(int signal) {
  const std::vector<pid_t> all = descendants();
  for (const pid_t pid : all) ::kill(pid, signal);
  return static_cast<int>(all.size());
}

}  // namespace memtune::attach
