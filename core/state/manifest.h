// What a saved state consists of: manifest.json, whose being there makes the state one. It has a checksum of itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/safetensors/dtype.h"

namespace memtune::state {

// A saved state that is not what was written: torn, cut, changed, or somebody else's. what() says which and why.
class Damaged : public UsageError {
 public:
  using UsageError::UsageError;
};

struct StateFile {
  std::string name;  // in the state's folder
  int64_t bytes = 0;
  std::string hash;  // XXH3-128 of the whole file
};

// Of a tensor of which several ranks have a part each: its numbers lie in a row, one part behind another.
struct Extent {
  std::vector<int64_t> whole;       // the tensor's shape
  std::vector<int64_t> order = {};  // of its dimensions in the row, the outermost first; empty: as in the shape
  int64_t begin = 0;                // numbers of the row before the part
  bool operator==(const Extent&) const = default;
};
using Extents = std::map<std::string, Extent>;  // by the tensors' names; who has none is whole

struct StateTensor {
  std::string name;
  safetensors::Dtype dtype = safetensors::Dtype::f32;
  std::vector<int64_t> shape;
  size_t file = 0;                            // of Manifest::files
  std::string hash;                           // XXH3-128 of its bytes
  std::optional<Extent> part = std::nullopt;  // it is a part of one; its shape is that of a row
};

// Of the training, by the flags that set them.
using Settings = std::map<std::string, std::string>;

struct Manifest {
  int64_t step = 0;
  Settings settings;
  std::vector<StateFile> files;      // one a rank
  std::vector<StateTensor> tensors;  // file by file, in the order of the file
};

std::string print(const Manifest& manifest);
// Throws Damaged, with half a sentence: why it is none.
Manifest parse_manifest(const std::string& text);
// Throws Damaged where a tensor is there twice, or parts are not all of one.
void check_whole(const Manifest& manifest);

}  // namespace memtune::state
