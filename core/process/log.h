// What a process says on stdout and stderr, for people: the first megabytes in a file as they come, of the rest the
// last words. One that prints in a loop fills neither disk nor memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/file.h"

namespace memtune::process {

class ProcessLog {
 public:
  // Takes the place of a file that is there. "": kept nowhere but for its end. Throws IoError.
  ProcessLog(std::filesystem::path path, FileSystem& files);

  // That the disk takes no more is not the trial's fault: what it says last is known all the same.
  void add(std::string_view bytes);
  // Once all is said: adds the end where the middle was left out.
  void finish();

  // The last lines on one line: where libraries say why they gave up. One that says that PyTorch's allocator has no
  // memory is among them, whatever followed it.
  std::string last_words() const;

 private:
  void write(std::string_view bytes);

  std::filesystem::path path_;
  FileSystem& files_;
  Descriptor file_;
  int64_t said_bytes_ = 0, written_bytes_ = 0;
  std::string end_;  // of all that was said
};

}  // namespace memtune::process
