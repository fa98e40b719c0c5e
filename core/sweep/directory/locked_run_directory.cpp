#include "core/sweep/directory/locked_run_directory.h"

#include <chrono>

namespace memtune::sweep {

LockedRunDirectory::LockedRunDirectory(const std::filesystem::path& path, FileSystem& files)
    : directory_(path, files), made_(make_folders(path, files)) {
  lock_ = std::make_unique<FileLock>(path / "lock", directory_.files(), std::chrono::seconds(3));
  directory_.check_format();
  directory_.remove_temporaries();
}

LockedRunDirectory::~LockedRunDirectory() {
  if (made_ && !kept_) directory_.remove_inspections();
}

}  // namespace memtune::sweep
