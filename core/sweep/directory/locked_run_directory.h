// A run directory that this process works in: created if missing, locked, and cleaned of files that killed processes
// left.
#pragma once

#include <filesystem>
#include <memory>

#include "core/answer/run/run_directory.h"
#include "core/base/file.h"

namespace memtune::sweep {

class LockedRunDirectory {
 public:
  // Throws UsageError if another process has it open or it is not memtune's, IoError.
  LockedRunDirectory(const std::filesystem::path& path, FileSystem& files);
  // Removes a directory that it created, unless keep() was called.
  ~LockedRunDirectory();
  LockedRunDirectory(const LockedRunDirectory&) = delete;
  LockedRunDirectory& operator=(const LockedRunDirectory&) = delete;

  const RunDirectory& directory() const { return directory_; }
  // To be called once a trial has run in it.
  void keep() { kept_ = true; }

 private:
  RunDirectory directory_;
  bool kept_ = false, made_ = false;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace memtune::sweep
