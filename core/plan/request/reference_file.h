// File with loss and gradients of the baseline. All trials of one setting are compared with it: trials write and read
// it, a sweep checks that it is complete.
//
//   "MTREFER4", u64 offset of the directory, u64 its checksum (XXH3-64), raw bytes of all gradients,
//   directory: JSON {strategy, loss and its noise, relative_noise, gradients: [{name, dtype, shape, defined, offset,
//   bytes, hash (XXH3-128), device_hash, noise}]}
//
// A file without gradients has their hashes alone, which show that a trial's bits are equal. How much other bits
// differ, only gradients show.
//
// Noise is the largest absolute difference between runs of the baseline. Undefined gradients have an entry too. The
// file is written under a temporary name and renamed. The directory is last because hashes and noise are known last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace memtune::plan {

struct ReferenceGradientFileEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  bool defined = false;
  uint64_t offset = 0, bytes = 0;  // relative to the first gradient; bytes: 0 if the file has none
  std::string hash;                // "" if undefined, or if the file has no gradients and device_hash is there
  double noise = 0;
  std::string device_hash = {};  // core/base/device/device_memory_hash_value.h, in hexadecimal; "": was not on a GPU
};

struct ReferenceGradientFileIndex {
  std::string strategy;
  double loss = 0, loss_noise = 0;
  double relative_noise = 0;  // median of noise / largest element, over gradients that varied; 0: none varied
  bool has_gradients = true;  // false: their hashes alone
  std::vector<ReferenceGradientFileEntry> gradients;
};

inline constexpr uint64_t kFirstGradient = 24;  // offset of the first gradient

// Writes an empty header; the caller appends the gradients.
void begin_reference(std::ostream& file);
// Appends the directory and writes the header. The caller checks the stream for errors.
void finish_reference(std::ostream& file, const ReferenceGradientFileIndex& reference);

// Throws UsageError, with advice, for other files, another version or damage.
ReferenceGradientFileIndex read_reference(const std::filesystem::path& path);

// Whether directory and gradients match their checksums. Reads the whole file.
bool is_whole_reference(const std::filesystem::path& path);

[[noreturn]] void refuse_reference(const std::filesystem::path& path, const std::string& what);

}  // namespace memtune::plan
