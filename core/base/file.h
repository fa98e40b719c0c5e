// Regular files: read whole or in parts, replaced atomically, locked. A failed system call throws IoError with path and
// reason. So does a path that names a pipe, a device or a socket (open_file.h). Tests replace `system`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file_system.h"

namespace memtune {

// Reads to the end of the file even if its reported size is 0, as in /proc. Throws IoError above `most_bytes`.
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
std::string read_file(const std::filesystem::path& path, FileSystem& system = system_files(),
                      int64_t most_bytes = kMaxFileBytes);

// Writes a temporary file next to `path`, fsyncs it, renames it over `path` and fsyncs the folder. Readers see the old
// or the new content, never a part. Permissions are kept; owner and group are kept if the process may set them. A
// failure leaves no temporary file. Pipes and devices are written directly, through open_stream().
void write_file(const std::filesystem::path& path, std::string_view content, FileSystem& system = system_files());

// Appends one record and fsyncs. The file is created when missing.
void append_file(const std::filesystem::path& path, std::string_view content, FileSystem& system = system_files());

// Renames a finished file that was written next to `path`: fsync, rename, fsync of the folder.
void publish_file(const std::filesystem::path& aside, const std::filesystem::path& path,
                  FileSystem& system = system_files());

// Removes a file. A missing file is no error.
void remove_file(const std::filesystem::path& path, FileSystem& system = system_files());

// Creates a folder and its missing parents. Returns false if the folder existed.
bool make_folders(const std::filesystem::path& path, FileSystem& system = system_files());

// Creations, renames and removals inside the folder are durable when this returns.
void sync_folder(const std::filesystem::path& folder, FileSystem& system = system_files());

// Returns the names of the folder's entries, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder, FileSystem& system = system_files());

// Truncates the file to `bytes`.
void cut_file(const std::filesystem::path& path, int64_t bytes, FileSystem& system = system_files());

// Owns a file descriptor; -1 means none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int file = -1) : file_(file) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return file_; }

 private:
  int file_;
};

// A file that is read in parts.
class RandomAccessFileReader {
 public:
  explicit RandomAccessFileReader(const std::filesystem::path& path, FileSystem& system = system_files());
  int64_t size() const { return size_; }  // at the time of opening
  // Throws IoError if the file ends before `bytes` are read.
  void read(char* data, int64_t bytes, int64_t offset) const;

 private:
  std::filesystem::path path_;
  FileSystem& system_;
  FileDescriptor file_;
  int64_t size_;
};

// A file that is written in parts, with the guarantees of write_file(). finish() publishes it under its name; without
// finish() the destructor removes it.
class AtomicFileWriter {
 public:
  explicit AtomicFileWriter(const std::filesystem::path& path, FileSystem& system = system_files());
  ~AtomicFileWriter();
  AtomicFileWriter(const AtomicFileWriter&) = delete;
  AtomicFileWriter& operator=(const AtomicFileWriter&) = delete;

  void write(std::string_view part);
  // For code that writes with its own system calls until finish(), such as io_uring.
  int descriptor() const { return file_.get(); }
  void cut(int64_t bytes);
  void finish();

 private:
  std::filesystem::path path_, aside_;  // aside_ is empty if `path` is a pipe or a device, which is written directly
  FileSystem& system_;
  FileDescriptor file_;
};

// An advisory lock (flock) on `path`. The kernel releases it when the process ends, even by a signal. The file holds
// the owner's process id, for error messages of other processes.
class FileLock {
 public:
  // Retries for `timeout`, because the children of a killed memtune end a moment later. Throws UsageError with the
  // holder's process id if another process holds it longer. Also throws UsageError if the file was not written by
  // memtune.
  explicit FileLock(const std::filesystem::path& path, FileSystem& system = system_files(),
                    std::chrono::milliseconds timeout = {});

 private:
  // Not removed on unlock. A third process could otherwise lock a new file of that name while a second one holds the
  // old file.
  FileDescriptor file_;
};

// "WHAT: REASON", with the text of errno `error`.
IoError system_error(const std::string& what, int error);

// "cannot OPERATION 'PATH': REASON". Throws DiskFullError, a kind of IoError, for ENOSPC, EDQUOT and EFBIG.
[[noreturn]] void throw_io_error(const char* operation, const std::filesystem::path& path, int64_t error);

// Path of the running program, symlinks resolved. Installed files are found relative to it.
std::filesystem::path executable_path();

}  // namespace memtune
