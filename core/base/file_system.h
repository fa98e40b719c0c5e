// The interface to the operating system's file calls. All of memtune's file access passes through it, so a test can
// make any single call fail, return less or return wrong data.
//
// Results are those of the system call: a number, or -errno. Nothing is retried or turned into an exception here. This
// class makes the real calls; tests override them. Thread: any.
#pragma once

#include <sys/statfs.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace memtune {

class FileSystem {
 public:
  FileSystem() = default;
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // Returns a descriptor that the caller must close. `mode` applies if the call creates the file. O_NOFOLLOW refuses
  // symbolic links in every part of the path.
  virtual int open(const std::filesystem::path& path, int flags, unsigned mode);
  // Bytes transferred, possibly fewer than requested; 0 at the end of the file. Calls without an offset use the file
  // offset.
  virtual int64_t read(int file, char* data, int64_t bytes);
  virtual int64_t read_at(int file, char* data, int64_t bytes, int64_t offset);
  virtual int64_t write(int file, const char* data, int64_t bytes);
  virtual int64_t size(int file);
  // Content is durable when this returns. For a folder: its entries.
  virtual int sync(int file);
  virtual int resize(int file, int64_t bytes);
  // Reserves disk space from `offset` on.
  virtual int allocate(int file, int64_t offset, int64_t bytes);
  virtual int status(int file, struct statfs& status);
  // Takes an exclusive lock; -EWOULDBLOCK if another process holds it.
  virtual int lock(int file);
  virtual int make_folder(const std::filesystem::path& path);
  virtual int remove_folder(const std::filesystem::path& path);  // must be empty
  // Names of the entries of an open folder, unsorted, without "." and "..".
  virtual int names_in(int folder, std::vector<std::string>& names);
  virtual int rename(const std::filesystem::path& from, const std::filesystem::path& to);
  virtual int unlink(const std::filesystem::path& path);
};

// Returns the shared instance that makes the real system calls.
FileSystem& system_files();

}  // namespace memtune
