// Regular files: read whole or in parts, published whole, locked while in use. What the system refuses, and a pipe, a
// device or a socket (open_file.h), is an IoError with path and reason. `system` is for tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file_system.h"

namespace memtune {

// Files without a size, as those of /proc, are read to their end too. More than `most_bytes` is an IoError.
inline constexpr int64_t kMostFileBytes = int64_t{1} << 30;
std::string read_file(const std::filesystem::path& path, FileSystem& system = system_files(),
                      int64_t most_bytes = kMostFileBytes);

// Writes beside `path`, fsyncs, renames over it, fsyncs the folder: readers see the old or the new content, never a
// part. Permissions stay, owner and group if they may. On failure nothing is left. Pipes and devices: by open_stream().
void write_file(const std::filesystem::path& path, std::string_view content, FileSystem& system = system_files());

// Appends one record and fsyncs. The file is created when missing.
void append_file(const std::filesystem::path& path, std::string_view content, FileSystem& system = system_files());

// Gives a file that was written beside `path` its name: fsync, rename, fsync of the folder.
void publish_file(const std::filesystem::path& aside, const std::filesystem::path& path,
                  FileSystem& system = system_files());

// Removes a file; one that is not there is gone already.
void remove_file(const std::filesystem::path& path, FileSystem& system = system_files());

// Makes a folder and what is missing on the way to it; false when it was there.
bool make_folders(const std::filesystem::path& path, FileSystem& system = system_files());

// What was made, renamed and removed in the folder is on the disk when it returns.
void sync_folder(const std::filesystem::path& folder, FileSystem& system = system_files());

// What is in the folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder, FileSystem& system = system_files());

// Cuts the file's end off.
void cut_file(const std::filesystem::path& path, int64_t bytes, FileSystem& system = system_files());

// An open file; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int file = -1) : file_(file) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return file_; }

 private:
  int file_;
};

// A file that is read in parts.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path, FileSystem& system = system_files());
  int64_t size() const { return size_; }  // when it was opened
  // Throws IoError also when the file ends before.
  void read(char* data, int64_t bytes, int64_t offset) const;

 private:
  std::filesystem::path path_;
  FileSystem& system_;
  Descriptor file_;
  int64_t size_;
};

// A file that is written part by part, as write_file() does: under its name from finish() on, gone without it.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path, FileSystem& system = system_files());
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view part);
  // Whoever writes without write(): to this file, which is the caller's until finish().
  int descriptor() const { return file_.get(); }
  void cut(int64_t bytes);
  void finish();

 private:
  std::filesystem::path path_, aside_;  // aside_ "": written to directly
  FileSystem& system_;
  Descriptor file_;
};

// An advisory lock (flock) on `path`, freed by the kernel when the process ends however it ends. The file holds the
// owner's process id for the message to whoever comes second.
class FileLock {
 public:
  // Throws UsageError naming the holder's process id when another process holds it for all of `patience`, and when the
  // file holds something else: it is somebody's. Of a memtune that was killed what it had started ends a moment later.
  explicit FileLock(const std::filesystem::path& path, FileSystem& system = system_files(),
                    std::chrono::milliseconds patience = {});

 private:
  // The file stays: removing it would let a third process lock a new file of that name beside a waiting second one.
  Descriptor file_;
};

// "WHAT: why", by the system's number.
IoError system_error(const std::string& what, int error);

// "cannot OPERATION 'PATH': why"; a DiskFull, which is an IoError too, where that is why.
[[noreturn]] void throw_io_error(const char* operation, const std::filesystem::path& path, int64_t error);

// The executable of this process, symlinks resolved; where installed files are looked up from.
std::filesystem::path executable_path();

}  // namespace memtune
