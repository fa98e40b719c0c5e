#include "core/engine/disk/direct_or_buffered_io_file.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/uninterrupted.h"

namespace memtune::disk {
namespace {

// Unknown for file systems that report no size: many in user space, and in-memory ones without a limit.
std::optional<int64_t> free_bytes_of(const struct statfs& status) {
  if (status.f_blocks == 0) return std::nullopt;
  return static_cast<int64_t>(status.f_bavail) * status.f_bsize;
}

}  // namespace

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

bool DirectOrBufferedIoFile::can_do_direct_io() const {
  const int64_t alignment = system_.direct_alignment(descriptor());
  return alignment < 0 || (alignment > 0 && kAlignment % alignment == 0);
}

struct statfs DirectOrBufferedIoFile::status() const {
  struct statfs status {};
  const int result = uninterrupted([&] { return system_.status(descriptor(), status); });
  if (result < 0) std::rethrow_exception(failure(-result, "looking at its file system"));
  return status;
}

void DirectOrBufferedIoFile::grow(int64_t bytes) {
  if (bytes <= bytes_) return;
  const std::optional<int64_t> free = free_bytes_of(status());
  // Checked first, because the system would fill the whole disk before it fails.
  if (free && bytes - bytes_ > *free - (spared_ > 0 ? *free / spared_ : 0))
    std::rethrow_exception(failure(ENOSPC, "growing it to " + format_bytes(bytes)));
  allocate(bytes);
  bytes_ = bytes;
}

void DirectOrBufferedIoFile::allocate(int64_t bytes) {
  int result = uninterrupted([&] { return system_.allocate(descriptor(), bytes_, bytes - bytes_); });
  // Without fallocate, as on some network file systems, space cannot be preallocated.
  if (result == -EOPNOTSUPP || result == -ENOSYS)
    result = uninterrupted([&] { return system_.resize(descriptor(), bytes); });
  if (result >= 0) return;
  const auto error = failure(-result, "growing it to " + format_bytes(bytes));
  system_.resize(descriptor(), bytes_);  // frees what was allocated before the failure
  std::rethrow_exception(error);
}

void DirectOrBufferedIoFile::sync() const {
  const int result = uninterrupted([&] { return system_.sync(descriptor()); });
  if (result < 0) std::rethrow_exception(failure(-result, "syncing it"));
}

void DirectOrBufferedIoFile::forget(const IoSubmission& transfer) const {
  if (!direct_) ::posix_fadvise(descriptor(), transfer.offset, transfer.bytes, POSIX_FADV_DONTNEED);
}

std::unique_ptr<AsyncFileIo> DirectOrBufferedIoFile::start_io(int depth, IoBackend backend) const {
  auto io = system_.start_io(descriptor(), depth, backend);
  if (!io)
    throw DiskOrFileSystemError(
        "io_uring is refused here (an old kernel, or a container's rules); use threads instead");
  return io;
}

std::string DirectOrBufferedIoFile::describe(const AsyncFileIo& io) const {
  return std::string(io.name()) + (direct_ ? ", direct" : ", through the page cache");
}

std::string DirectOrBufferedIoFile::words(int error, const std::string& doing) const {
  const std::string what = doing + ": " + std::generic_category().message(error);
  if (const std::string limit = file_size_limit(); error == EFBIG && !limit.empty()) return what + "; " + limit;
  struct statfs status {};
  if (!is_full(error) || error == EFBIG || system_.status(descriptor(), status) < 0) return what;
  const std::optional<int64_t> free = free_bytes_of(status);
  return free ? what + " (" + format_bytes(*free) + " free)" : what;
}

std::exception_ptr DirectOrBufferedIoFile::failure_of(int error, const IoSubmission& transfer) const {
  const std::string verb = transfer.kind == IoSubmission::Kind::read ? "reading " : "writing ";
  return failure(error, verb + format_bytes(transfer.bytes) + " at offset " + std::to_string(transfer.offset));
}

}  // namespace memtune::disk
