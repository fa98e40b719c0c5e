// The Python files that tell of a training process's steps, and the private folder from which such processes load them
// and into which they write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::attach {

// Of shim/, which the build puts into the program.
struct ShimFile {
  std::string name;
  std::string_view text;
};
std::vector<ShimFile> shim_files();

// Steps of warm-up, measured, and traced behind them where there is a CUDA device.
struct StepCounts {
  int warmup = 2, measured = 5, traced = 2;
};

// Made for one command, gone with this.
class ShimFolder {
 public:
  ShimFolder();  // IoError
  ~ShimFolder();
  ShimFolder(const ShimFolder&) = delete;
  ShimFolder& operator=(const ShimFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path records() const { return path_ / "records"; }

  // That of this process, with what the shim is to be found by and told.
  std::vector<std::string> environment(const StepCounts& steps, int64_t memory_cap_bytes) const;

 private:
  std::filesystem::path path_;
};

}  // namespace memtune::attach
