// The Python files that measure a training process. A private folder holds them and the records that such processes
// write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/temporary_folder.h"

namespace memtune::attach {

// A file of shim/, which the build embeds in the program.
struct ShimFile {
  std::string name;
  std::string_view text;
};
std::vector<ShimFile> shim_files();

// Numbers of warm-up, measured and traced steps. One more step before the traced ones, in which tracing starts, does
// not count.
struct StepCounts {
  int warmup = 2, measured = 5, traced = 2;
};

// Created for one command, removed with this object.
class ShimFolder {
 public:
  ShimFolder();  // throws IoError; UsageError if PYTHONPATH cannot name it

  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path records() const { return path() / "records"; }

  // The environment of this process, plus what loads and configures the shim. `plan`: of CommandSettings.
  // `allocator` is added to its settings of PyTorch's allocator. `shown`: Python writes each line of stdout at once.
  std::vector<std::string> environment(const StepCounts& steps, int64_t memory_cap_bytes,
                                       const std::filesystem::path& plan, const std::string& allocator,
                                       bool shown) const;

 private:
  TemporaryFolder folder_{"attach"};
};

}  // namespace memtune::attach
