// The file with the baseline's loss and gradients that all trials of one setting are compared with: trials write and
// read it, a sweep looks whether it is whole.
//
//   "MTREFER3", u64 where the directory begins, u64 its checksum (XXH3-64), gradients as raw bytes one behind another,
//   directory: JSON {strategy, loss and its noise, relative_noise, gradients: [{name, dtype, shape, defined, offset,
//   bytes, hash (XXH3-128), noise}]}
//
// Noise is the largest absolute difference between runs of the baseline. Undefined gradients are recorded as such.
// Written aside and renamed; the directory stands last because hashes and noise are known last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace memtune::config {

struct ReferenceGradient {
  std::string name, dtype;
  std::vector<int64_t> shape;
  bool defined = false;
  uint64_t offset = 0, bytes = 0;  // from the first gradient on
  std::string hash;                // "" when undefined
  double noise = 0;
};

struct Reference {
  std::string strategy;
  double loss = 0, loss_noise = 0;
  double relative_noise = 0;  // median of noise / largest element, over what did not repeat itself; 0: all did
  std::vector<ReferenceGradient> gradients;
};

inline constexpr uint64_t kFirstGradient = 24;  // bytes before it

// Space for the head; then the gradients are appended.
void begin_reference(std::ostream& file);
// Appends the directory and writes the head. Whether it worked is the stream's to say.
void finish_reference(std::ostream& file, const Reference& reference);

// UsageError when it is none, of another version, or damaged: with the way out.
Reference read_reference(const std::filesystem::path& path);

// Whether directory and gradients are as they were written: reads all of the file.
bool is_whole_reference(const std::filesystem::path& path);

[[noreturn]] void refuse_reference(const std::filesystem::path& path, const std::string& what);

}  // namespace memtune::config
