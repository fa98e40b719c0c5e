#include "core/engine/disk/scratch_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>

#include "core/base/error.h"
#include "core/base/uninterrupted.h"

namespace memtune::disk {
namespace {

constexpr unsigned kOwnerOnly = 0600;
constexpr int64_t kLeftOver = 32;  // growing the file leaves 1/32 of the free bytes to others

std::string text_of(int error) { return std::generic_category().message(error); }

// This combination of open flags is not supported here; another one may be.
bool unsupported(int error) { return error == EINVAL || error == EOPNOTSUPP || error == EISDIR || error == ENOSYS; }

bool persons_to_fix(int error) {
  constexpr std::array kErrors{ENOENT, ENOTDIR, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP};
  return std::ranges::find(kErrors, error) != kErrors.end();
}

std::string random_name() {
  std::random_device random;
  std::ostringstream name;
  name << ".memtune-scratch-" << std::hex << random() << random();
  return name.str();
}

bool is_memory(const struct statfs& status) {
  return status.f_type == TMPFS_MAGIC || status.f_type == static_cast<decltype(status.f_type)>(RAMFS_MAGIC);
}

// Inside a container the upper folder is often not visible. The result is then false.
bool is_overlay_over_memory(const std::filesystem::path& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return false;
  std::ostringstream mounts;
  mounts << std::ifstream("/proc/self/mountinfo").rdbuf();
  const std::string device = std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  const std::string upper = upper_folder(mounts.str(), device);
  struct statfs status {};
  return !upper.empty() && ::statfs(upper.c_str(), &status) == 0 && is_memory(status);
}

}  // namespace

std::string upper_folder(const std::string& mountinfo, const std::string& device) {
  constexpr std::string_view kKey = "upperdir=";
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, parent, found;
    words >> number >> parent >> found;
    const size_t key = line.find(kKey);
    if (found != device || key == std::string::npos) continue;
    const size_t begin = key + kKey.size();
    return line.substr(begin, line.find_first_of(", ", begin) - begin);
  }
  return "";
}

ScratchFile::ScratchFile(AsyncDirectIoFileSystem& system, std::filesystem::path directory, bool allow_memory)
    : DirectOrBufferedIoFile(system, kLeftOver), directory_(std::move(directory)) {
  open();
  if (!allow_memory) refuse_memory();
}

void ScratchFile::open() {
  for (const bool unnamed : {true, false}) {
    for (const bool direct : {true, false}) {
      if (try_open(unnamed, direct)) return;
    }
  }
  std::rethrow_exception(failure(EOPNOTSUPP, "opening it"));
}

// Returns false if this combination is not supported.
bool ScratchFile::try_open(bool unnamed, bool direct) {
  const int flags = O_RDWR | O_EXCL | (unnamed ? O_TMPFILE : O_CREAT | O_NOFOLLOW) | (direct ? O_DIRECT : 0);
  const std::filesystem::path path = unnamed ? directory_ : directory_ / random_name();
  const int result = uninterrupted([&] { return system_.open(path, flags, kOwnerOnly); });
  if (result < 0 && unsupported(-result)) return false;
  if (result < 0 && persons_to_fix(-result))
    throw UsageError("cannot write into the scratch directory '" + directory_.string() + "': " + text_of(-result) +
                     "; name a directory on a local disk with --scratch");
  if (result < 0) std::rethrow_exception(failure(-result, "opening it"));
  file_ = FileDescriptor(result);
  const int unlinked = unnamed ? 0 : uninterrupted([&] { return system_.unlink(path); });
  if (unlinked == 0 && (!direct || can_do_direct_io())) {
    unnamed_ = unnamed, direct_ = direct;
    return true;
  }
  file_ = FileDescriptor();
  if (unlinked < 0) std::rethrow_exception(failure(-unlinked, "removing its name " + path.filename().string()));
  return false;
}

void ScratchFile::refuse_memory() const {
  const struct statfs status = this->status();
  const bool overlay = status.f_type == OVERLAYFS_SUPER_MAGIC && is_overlay_over_memory(directory_);
  if (!is_memory(status) && !overlay) return;
  throw UsageError("the scratch directory '" + directory_.string() +
                   "' is in memory, where a scratch file frees none; name one on a disk with --scratch, or add "
                   "--scratch-in-memory to use it anyway");
}

std::string ScratchFile::describe(const AsyncFileIo& io) const {
  return DirectOrBufferedIoFile::describe(io) + (unnamed_ ? ", unnamed" : ", unlinked");
}

std::exception_ptr ScratchFile::failure(int error, const std::string& doing) const {
  const std::string what = "the scratch file in '" + directory_.string() + "': " + words(error, doing);
  if (error == EFBIG) return std::make_exception_ptr(DiskFullError(what));
  if (is_full(error))
    return std::make_exception_ptr(
        DiskFullError(what + "; free some, name a larger disk with --scratch, or lower --disk-budget"));
  return std::make_exception_ptr(
      DiskOrFileSystemError(what + "; see the kernel's log for the disk, or name another with --scratch"));
}

}  // namespace memtune::disk
