// Log of a child process's stdout and stderr. The file holds the first megabytes and the last lines, so that a process
// that prints in a loop fills neither disk nor memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/file.h"

namespace memtune::process {

class ProcessLog {
 public:
  // Replaces an existing file at `path`. With an empty path only the last lines are kept, in memory. Throws IoError.
  ProcessLog(std::filesystem::path path, FileSystem& files);

  // Write errors (a full disk) are ignored, so that they do not fail the trial. The last lines stay available.
  void add(std::string_view bytes);
  // Call once after the last add(). Appends the last lines if the middle was left out.
  void finish();

  // The last non-empty lines, joined into one line; libraries print the reason of a failure there. If one of them says
  // that PyTorch's allocator is out of memory, that line is kept even if others follow it.
  std::string log_tail() const;

 private:
  void write(std::string_view bytes);

  std::filesystem::path path_;
  FileSystem& files_;
  FileDescriptor file_;
  int64_t said_bytes_ = 0, written_bytes_ = 0;
  std::string end_;  // the last bytes of the whole output
};

}  // namespace memtune::process
