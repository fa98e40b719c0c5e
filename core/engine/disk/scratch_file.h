// The scratch file. It has no name, so the kernel frees it when the process ends, even by a signal.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "core/engine/disk/direct_or_buffered_io_file.h"

namespace memtune::disk {

class ScratchFile final : public DirectOrBufferedIoFile {
 public:
  // Throws UsageError if the directory is missing, not writable, or in memory without `allow_memory`.
  ScratchFile(AsyncDirectIoFileSystem& system, std::filesystem::path directory, bool allow_memory);

  int descriptor() const override { return file_.get(); }
  // "io_uring, direct, unnamed": for people.
  std::string describe(const AsyncFileIo& io) const override;
  // A DiskFullError or a DiskOrFileSystemError.
  std::exception_ptr failure(int error, const std::string& doing) const override;

 private:
  void open();
  bool try_open(bool unnamed, bool direct);
  void refuse_memory() const;

  std::filesystem::path directory_;
  FileDescriptor file_;
  bool unnamed_ = false;  // never had a name, not even for a moment
};

// Finds the folder behind a writable overlay (upperdir). `mountinfo` is the text of /proc/self/mountinfo, `device` the
// overlay's device number ("0:45"). Returns "" if there is none.
std::string upper_folder(const std::string& mountinfo, const std::string& device);

}  // namespace memtune::disk
