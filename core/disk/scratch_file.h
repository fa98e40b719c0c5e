// One file that nobody sees: it has no name, so that the kernel takes it back however this process ends.
#pragma once

#include <exception>
#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "core/disk/file_io.h"

namespace memtune::disk {

class ScratchFile {
 public:
  // Throws UsageError when the directory is missing, not writable, or held in memory and `allow_memory` is not set.
  ScratchFile(DiskSystem& system, std::filesystem::path directory, bool allow_memory);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int descriptor() const { return file_.get(); }
  const std::filesystem::path& directory() const { return directory_; }
  bool direct() const { return direct_; }   // past the page cache
  int64_t bytes() const { return bytes_; }  // room taken on the disk

  // Takes room, so that the disk cannot be full later. Throws DiskFull and leaves the file as it was.
  void grow(int64_t bytes);

  // Without direct I/O the page cache would fill with what nobody reads twice.
  void forget(const DiskTransfer& transfer) const;

  // Throws DiskError where `backend` is refused.
  std::unique_ptr<FileIo> start_io(int depth, Backend backend) const;
  // "io_uring, direct, unnamed": how it is used.
  std::string describe(const FileIo& io) const;

  // DiskFull or DiskError for `error`, an errno.
  std::exception_ptr failure(int error, const std::string& doing) const;
  std::exception_ptr failure(int error, const DiskTransfer& transfer) const;

 private:
  void open();
  bool try_open(bool unnamed, bool direct);
  bool can_do_direct_io() const;
  struct statfs status() const;
  void refuse_memory() const;
  void allocate(int64_t bytes);

  DiskSystem& system_;
  std::filesystem::path directory_;
  Descriptor file_;
  bool direct_ = false;
  bool unnamed_ = false;  // never had a name, not even for a moment
  int64_t bytes_ = 0;
};

// The folder that holds what is written to the overlay mounted as device `device` ("0:45"), by the text of
// /proc/self/mountinfo; "" when there is none.
std::string upper_folder(const std::string& mountinfo, const std::string& device);

}  // namespace memtune::disk
