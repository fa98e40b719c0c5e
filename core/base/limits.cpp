#include "core/base/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "core/base/bytes.h"

namespace memtune {
namespace {

std::string limit_of(decltype(RLIMIT_FSIZE) what, const std::string& before, const std::string& after) {
  rlimit limit{};
  const bool known = ::getrlimit(what, &limit) == 0 && limit.rlim_cur < std::numeric_limits<int64_t>::max();
  return known ? before + format_bytes(static_cast<int64_t>(limit.rlim_cur)) + after : "";
}

}  // namespace

std::string file_size_limit() {
  return limit_of(RLIMIT_FSIZE, "a file that this process writes may have ", " (ulimit -f)");
}

std::string memory_limit() { return limit_of(RLIMIT_DATA, "this process may hold ", " of its own (ulimit -d)"); }

int64_t available_memory_bytes() {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  std::ifstream lines("/proc/meminfo");
  for (std::string word; lines >> word;)
    if (int64_t kib = 0; word == "MemAvailable:" && lines >> kib) bytes = kib << 10;
  // In a container, cached file pages count as used but can be reclaimed.
  int64_t most = 0, used = 0, files = 0;
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> most) ||
      !(std::ifstream("/sys/fs/cgroup/memory.current") >> used))
    return bytes;
  std::ifstream stat("/sys/fs/cgroup/memory.stat");
  for (std::string word; stat >> word;)
    if (word == "inactive_file") stat >> files;
  return std::clamp<int64_t>(most - used + files, 0, bytes);
}

}  // namespace memtune
