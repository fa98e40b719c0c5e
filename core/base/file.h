// Files as memtune uses them: read whole, published whole, locked while in use.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace memtune {

// Throws IoError with path and errno text.
std::string read_file(const std::filesystem::path& path);

// Writes beside `path`, fsyncs, renames over it, fsyncs the folder: readers see the old or the new content, never a
// part. Throws IoError; on failure nothing is left behind. Pipes and devices are written to directly.
void write_file(const std::filesystem::path& path, std::string_view content);

// Appends one record and fsyncs. The file is created when missing.
void append_file(const std::filesystem::path& path, std::string_view content);

// An advisory lock (flock) on `path`, freed by the kernel when the process ends however it ends. The file holds the
// owner's process id for the message to whoever comes second.
class FileLock {
 public:
  // Throws UsageError naming the holder's process id when another process holds it.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

// The executable of this process, symlinks resolved; where installed files are looked up from.
std::filesystem::path executable_path();

}  // namespace memtune
