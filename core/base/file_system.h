// The seam between memtune and the operating system's files: everything that files are asked for goes through it, so
// that a test can refuse, cut short or falsify any single call.
//
// Results are the system's own, a number or -errno. Nothing is retried, resumed or turned into an error here. As it
// stands it is the real one; a test overrides calls. Thread: any.
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

  // A descriptor; its owner closes it. `mode`: of a file that this creates. With O_NOFOLLOW no part of the path may be
  // a link.
  virtual int open(const std::filesystem::path& path, int flags, unsigned mode);
  // Bytes moved, perhaps fewer than asked for; 0: the end. Without an offset from where the file stands.
  virtual int64_t read(int file, char* data, int64_t bytes);
  virtual int64_t read_at(int file, char* data, int64_t bytes, int64_t offset);
  virtual int64_t write(int file, const char* data, int64_t bytes);
  virtual int64_t size(int file);
  // On the disk when it returns; of a folder, its names.
  virtual int sync(int file);
  virtual int resize(int file, int64_t bytes);
  // Gives the file room on the disk from `offset` on.
  virtual int allocate(int file, int64_t offset, int64_t bytes);
  virtual int status(int file, struct statfs& status);
  // Takes the file for this process alone; -EWOULDBLOCK when another has it.
  virtual int lock(int file);
  virtual int make_folder(const std::filesystem::path& path);
  virtual int remove_folder(const std::filesystem::path& path);  // an empty one
  // What is in the open folder, less "." and "..", in no order.
  virtual int names_in(int folder, std::vector<std::string>& names);
  virtual int rename(const std::filesystem::path& from, const std::filesystem::path& to);
  virtual int unlink(const std::filesystem::path& path);
};

// The real one.
FileSystem& system_files();

}  // namespace memtune
