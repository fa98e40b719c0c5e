// A new file written by transfers. Like AtomicFileWriter, it has a temporary name until it is complete.
#pragma once

#include <filesystem>

#include "core/base/file.h"
#include "core/engine/disk/direct_or_buffered_io_file.h"

namespace memtune::disk {

class AtomicOutputFile final : public DirectOrBufferedIoFile {
 public:
  // Takes disk space for `bytes`. `files` opens and renames; `system`, below it, serves the open file. Throws IoError,
  // or DiskFullError with the byte counts.
  AtomicOutputFile(const std::filesystem::path& path, int64_t bytes, FileSystem& files,
                   AsyncDirectIoFileSystem& system);

  int descriptor() const override { return file_.descriptor(); }
  // Truncates to `bytes` and publishes the file under its name, durably; all transfers must be done. Throws IoError.
  // Without finish() the destructor removes the file.
  void finish(int64_t bytes);

  // An IoError, possibly a DiskFullError.
  std::exception_ptr failure(int error, const std::string& doing) const override;

 private:
  std::filesystem::path path_;
  AtomicFileWriter file_;
};

}  // namespace memtune::disk
