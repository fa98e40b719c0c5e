// A run directory that this process is at: made where it is missing, locked, and freed of what killed processes left.
#pragma once

#include <filesystem>
#include <memory>

#include "core/base/file.h"
#include "core/sweep/run_directory.h"

namespace memtune::sweep {

class OpenDirectory {
 public:
  // Throws UsageError where another process is at it or it is somebody else's, IoError.
  OpenDirectory(const std::filesystem::path& path, FileSystem& files);
  // One that was made for this and is not to be kept goes.
  ~OpenDirectory();
  OpenDirectory(const OpenDirectory&) = delete;
  OpenDirectory& operator=(const OpenDirectory&) = delete;

  const RunDirectory& directory() const { return directory_; }
  // A trial has run in it.
  void keep() { kept_ = true; }

 private:
  RunDirectory directory_;
  bool kept_ = false, made_ = false;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace memtune::sweep
