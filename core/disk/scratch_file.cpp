#include "core/disk/scratch_file.h"

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

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/limits.h"

namespace memtune::disk {
namespace {

constexpr int kPatience = 100;  // interruptions in a row
constexpr unsigned kOwnerOnly = 0600;
constexpr int64_t kLeftOver = 32;  // growing leaves one in so many of the free bytes to everybody else

std::string text_of(int error) { return std::generic_category().message(error); }

// `call` again as long as signals interrupt it.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  for (int tries = 1; result == -EINTR && tries < kPatience; ++tries) result = call();
  return result;
}

// The way this open was tried does not exist here: another may.
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

int64_t free_bytes_of(const struct statfs& status) { return static_cast<int64_t>(status.f_bavail) * status.f_bsize; }

// In a container the upper folder is often out of sight: then the answer is no.
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

ScratchFile::ScratchFile(DiskSystem& system, std::filesystem::path directory, bool allow_memory)
    : system_(system), directory_(std::move(directory)) {
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

// False: not this way.
bool ScratchFile::try_open(bool unnamed, bool direct) {
  const int flags = O_RDWR | O_EXCL | (unnamed ? O_TMPFILE : O_CREAT | O_NOFOLLOW) | (direct ? O_DIRECT : 0);
  const std::filesystem::path path = unnamed ? directory_ : directory_ / random_name();
  const int result = uninterrupted([&] { return system_.open(path, flags, kOwnerOnly); });
  if (result < 0 && unsupported(-result)) return false;
  if (result < 0 && persons_to_fix(-result))
    throw UsageError("cannot write into the scratch directory '" + directory_.string() + "': " + text_of(-result) +
                     "; name a directory on a local disk with --scratch");
  if (result < 0) std::rethrow_exception(failure(-result, "opening it"));
  file_ = Descriptor(result);
  const int unlinked = unnamed ? 0 : uninterrupted([&] { return system_.unlink(path); });
  if (unlinked == 0 && (!direct || can_do_direct_io())) {
    unnamed_ = unnamed, direct_ = direct;
    return true;
  }
  file_ = Descriptor();
  if (unlinked < 0) std::rethrow_exception(failure(-unlinked, "removing its name " + path.filename().string()));
  return false;
}

// Some file systems accept O_DIRECT and then refuse every transfer, or want larger ones than ours.
bool ScratchFile::can_do_direct_io() const {
  const int64_t alignment = system_.direct_alignment(descriptor());
  return alignment < 0 || (alignment > 0 && kAlignment % alignment == 0);
}

struct statfs ScratchFile::status() const {
  struct statfs status {};
  const int result = uninterrupted([&] { return system_.status(descriptor(), status); });
  if (result < 0) std::rethrow_exception(failure(-result, "looking at its file system"));
  return status;
}

void ScratchFile::refuse_memory() const {
  const struct statfs status = this->status();
  const bool overlay = status.f_type == OVERLAYFS_SUPER_MAGIC && is_overlay_over_memory(directory_);
  if (!is_memory(status) && !overlay) return;
  throw UsageError("the scratch directory '" + directory_.string() +
                   "' is held in memory, where a scratch file frees none; name one on a disk with --scratch, or add "
                   "--scratch-in-memory to use it all the same");
}

void ScratchFile::grow(int64_t bytes) {
  if (bytes <= bytes_) return;
  const int64_t free = free_bytes_of(status());
  // Asked first: the system would fill the whole disk before it refuses.
  if (bytes - bytes_ > free - free / kLeftOver)
    std::rethrow_exception(failure(ENOSPC, "growing it to " + format_bytes(bytes)));
  allocate(bytes);
  bytes_ = bytes;
}

void ScratchFile::allocate(int64_t bytes) {
  int result = uninterrupted([&] { return system_.allocate(descriptor(), bytes_, bytes - bytes_); });
  // Without fallocate, as on some network file systems, room cannot be taken ahead.
  if (result == -EOPNOTSUPP || result == -ENOSYS)
    result = uninterrupted([&] { return system_.resize(descriptor(), bytes); });
  if (result >= 0) return;
  const auto error = failure(-result, "growing it to " + format_bytes(bytes));
  system_.resize(descriptor(), bytes_);  // what was taken before the refusal
  std::rethrow_exception(error);
}

void ScratchFile::forget(const DiskTransfer& transfer) const {
  if (!direct_) ::posix_fadvise(descriptor(), transfer.offset, transfer.bytes, POSIX_FADV_DONTNEED);
}

std::unique_ptr<FileIo> ScratchFile::start_io(int depth, Backend backend) const {
  auto io = system_.start_io(descriptor(), depth, backend);
  if (!io) throw DiskError("io_uring is refused here (an old kernel, or a container's rules); use threads instead");
  return io;
}

std::string ScratchFile::describe(const FileIo& io) const {
  return std::string(io.name()) + (direct_ ? ", direct" : ", through the page cache") +
         (unnamed_ ? ", unnamed" : ", unlinked");
}

std::exception_ptr ScratchFile::failure(int error, const std::string& doing) const {
  const std::string what = "the scratch file in '" + directory_.string() + "': " + doing + ": " + text_of(error);
  if (error == EFBIG) return std::make_exception_ptr(DiskFull(what + "; " + file_size_limit()));
  if (error != ENOSPC && error != EDQUOT)
    return std::make_exception_ptr(
        DiskError(what + "; see the kernel's log for the disk, or name another with --scratch"));
  struct statfs status {};
  const bool known = system_.status(descriptor(), status) >= 0;
  const std::string free = known ? " (" + format_bytes(free_bytes_of(status)) + " free)" : "";
  return std::make_exception_ptr(
      DiskFull(what + free + "; free some, name a larger disk with --scratch, or lower --disk-budget"));
}

std::exception_ptr ScratchFile::failure(int error, const DiskTransfer& transfer) const {
  const std::string verb = transfer.kind == DiskTransfer::Kind::read ? "reading " : "writing ";
  return failure(error, verb + format_bytes(transfer.bytes) + " at offset " + std::to_string(transfer.offset));
}

}  // namespace memtune::disk
