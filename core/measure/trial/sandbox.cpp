#include "core/measure/trial/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/file.h"

namespace memtune::trial {
namespace {

namespace fs = std::filesystem;

// From linux/landlock.h, which is incomplete on the oldest supported systems.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr int kPathBeneath = 1;
constexpr uint64_t kWriteFile = 1 << 1, kMakeAndRemove = 0x1FF0, kRefer = 1 << 13, kTruncate = 1 << 14;
constexpr uint64_t kBindAndConnect = 3;

struct Ruleset {
  uint64_t files = 0, network = 0;
};

struct __attribute__((packed)) PathRule {
  uint64_t allowed = 0;
  int32_t folder = -1;
};

Ruleset known_to(long version) {
  Ruleset rules{kWriteFile | kMakeAndRemove, 0};
  if (version >= 2) rules.files |= kRefer;
  if (version >= 3) rules.files |= kTruncate;
  if (version >= 4) rules.network = kBindAndConnect;
  return rules;
}

void allow(int rules, const fs::path& path, uint64_t rights) {
  const FileDescriptor place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (place.get() < 0) return;
  struct stat info {};
  if (::fstat(place.get(), &info) == 0 && !S_ISDIR(info.st_mode)) rights &= kWriteFile | kTruncate;
  const PathRule rule{rights, place.get()};
  ::syscall(kAddRule, rules, kPathBeneath, &rule, 0);
}

// Devices of GPUs and their drivers, and those that every process may write.
bool is_needed_device(const std::string& name) {
  for (const char* start : {"nvidia", "dri", "shm", "null", "zero", "infiniband"})
    if (name.starts_with(start)) return true;
  return false;
}

}  // namespace

bool restrict_writes_to(const std::vector<fs::path>& folders) {
  constexpr int kVersion = 1;
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kVersion);
  if (version < 1) return false;
  const Ruleset known = known_to(version);
  const FileDescriptor rules(
      static_cast<int>(::syscall(kCreateRuleset, &known, version >= 4 ? sizeof known : sizeof known.files, 0)));
  if (rules.get() < 0) return false;
  for (const fs::path& folder : folders) allow(rules.get(), folder, known.files);
  std::error_code none;
  for (const auto& device : fs::directory_iterator("/dev", none))
    if (is_needed_device(device.path().filename().string())) allow(rules.get(), device.path(), known.files);
  // CUDA names its threads by writing to /proc/self/task/*/comm.
  allow(rules.get(), "/proc/self", known.files & (kWriteFile | kTruncate));
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return ::syscall(kRestrictSelf, rules.get(), 0) == 0;
}

void exit_when_reader_closes(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISFIFO(info.st_mode)) return;
  std::thread([descriptor] {
    pollfd pipe{descriptor, 0, 0};  // the write end reports the end of its reader without a requested event
    while (::poll(&pipe, 1, -1) < 0 || (pipe.revents & (POLLERR | POLLNVAL)) == 0) {
    }
    if (::getpgrp() == ::getpid()) ::kill(0, SIGKILL);
    ::_exit(1);
  }).detach();
}

}  // namespace memtune::trial
