// The Python files that tell of a training process's steps, and the private folder from which such processes load them
// and into which they write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/private_folder.h"

namespace memtune::attach {

// Of shim/, which the build puts into the program.
struct ShimFile {
  std::string name;
  std::string_view text;
};
std::vector<ShimFile> shim_files();

// Steps of warm-up, measured, and traced behind them; one between, in which tracing begins, counts nowhere.
struct StepCounts {
  int warmup = 2, measured = 5, traced = 2;
};

// Made for one command, gone with this.
class ShimFolder {
 public:
  ShimFolder();  // IoError; UsageError where PYTHONPATH cannot name it

  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path records() const { return path() / "records"; }

  // That of this process, with what the shim is to be found by and told. `plan`: CommandSettings'.
  std::vector<std::string> environment(const StepCounts& steps, int64_t memory_cap_bytes,
                                       const std::filesystem::path& plan = {}) const;

 private:
  PrivateFolder folder_{"attach"};
};

}  // namespace memtune::attach
