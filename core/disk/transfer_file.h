// An open file that transfers move bytes of: past the page cache where its file system can do that, and with its room
// taken ahead where it can do that. What a request queue has to know of its file. Where it lies, and what to say of a
// failure, the heirs know.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "core/disk/file_io.h"

namespace memtune::disk {

class TransferFile {
 public:
  virtual ~TransferFile() = default;
  TransferFile(const TransferFile&) = delete;
  TransferFile& operator=(const TransferFile&) = delete;

  virtual int descriptor() const = 0;
  bool direct() const { return direct_; }   // past the page cache
  int64_t bytes() const { return bytes_; }  // room taken on the disk

  // Takes room, so that the disk cannot be full later. Throws DiskFull and leaves the file as it was.
  void grow(int64_t bytes);
  // On the disk when it returns.
  void sync() const;
  // Without direct I/O the page cache would fill with what nobody reads twice.
  void forget(const DiskTransfer& transfer) const;

  // Throws DiskError where `backend` is refused.
  std::unique_ptr<FileIo> start_io(int depth, Backend backend) const;
  // "io_uring, direct": how it is used.
  virtual std::string describe(const FileIo& io) const;

  // A DiskFull, or another error, for `error`, an errno.
  virtual std::exception_ptr failure(int error, const std::string& doing) const = 0;
  std::exception_ptr failure_of(int error, const DiskTransfer& transfer) const;

 protected:
  // One in `spared` of the free bytes is left to everybody else; 0: none.
  TransferFile(DiskSystem& system, int64_t spared) : system_(system), spared_(spared) {}

  // Some file systems accept O_DIRECT and then refuse every transfer, or want larger ones than ours.
  bool can_do_direct_io() const;
  struct statfs status() const;
  // "growing it to 40 GiB: No space left on device (4 MiB free)"
  std::string words(int error, const std::string& doing) const;

  DiskSystem& system_;
  bool direct_ = false;

 private:
  void allocate(int64_t bytes);

  int64_t spared_;
  int64_t bytes_ = 0;
};

bool is_full(int error);  // an errno: no room, over a quota or a limit

}  // namespace memtune::disk
