// An open file for concurrent transfers. It bypasses the page cache and preallocates disk space if the file system
// supports that. Subclasses know the file's place and the wording of its failures.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "core/engine/disk/async_file_io.h"

namespace memtune::disk {

class DirectOrBufferedIoFile {
 public:
  virtual ~DirectOrBufferedIoFile() = default;
  DirectOrBufferedIoFile(const DirectOrBufferedIoFile&) = delete;
  DirectOrBufferedIoFile& operator=(const DirectOrBufferedIoFile&) = delete;

  virtual int descriptor() const = 0;
  bool direct() const { return direct_; }   // bypasses the page cache
  int64_t bytes() const { return bytes_; }  // disk space taken

  // Takes disk space, so that later writes cannot run out of it. Throws DiskFullError and then leaves the file
  // unchanged.
  void grow(int64_t bytes);
  // Content is durable when this returns.
  void sync() const;
  // Drops the transferred range from the page cache, where it would only displace other data. No effect with direct
  // I/O.
  void forget(const IoSubmission& transfer) const;

  // Throws DiskOrFileSystemError if `backend` is refused.
  std::unique_ptr<AsyncFileIo> start_io(int depth, IoBackend backend) const;
  // "io_uring, direct": for people.
  virtual std::string describe(const AsyncFileIo& io) const;

  // The exception for errno `error`: a DiskFullError or another error. `doing` names the operation.
  virtual std::exception_ptr failure(int error, const std::string& doing) const = 0;
  std::exception_ptr failure_of(int error, const IoSubmission& transfer) const;

 protected:
  // grow() leaves 1/`spared` of the free bytes to others; 0: none.
  DirectOrBufferedIoFile(AsyncDirectIoFileSystem& system, int64_t spared) : system_(system), spared_(spared) {}

  // Some file systems accept O_DIRECT and then refuse every transfer, or require a larger alignment than kAlignment.
  bool can_do_direct_io() const;
  struct statfs status() const;
  // "growing it to 40 GiB: No space left on device (4 MiB free)"
  std::string words(int error, const std::string& doing) const;

  AsyncDirectIoFileSystem& system_;
  bool direct_ = false;

 private:
  void allocate(int64_t bytes);

  int64_t spared_;
  int64_t bytes_ = 0;
};

bool is_full(int error);  // errno values for missing space, a quota or a limit

}  // namespace memtune::disk
