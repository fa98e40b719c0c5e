// What a saved state consists of: manifest.json, whose being there makes the state one. It has a checksum of itself.
#pragma once

#include <cstdint>
#include <map>
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

struct StateTensor {
  std::string name;
  safetensors::Dtype dtype = safetensors::Dtype::f32;
  std::vector<int64_t> shape;
  size_t file = 0;   // of Manifest::files
  std::string hash;  // XXH3-128 of its bytes
};

// Of the training, by the flags that set them.
using Settings = std::map<std::string, std::string>;

struct Manifest {
  int64_t step = 0;
  Settings settings;
  std::vector<StateFile> files;
  std::vector<StateTensor> tensors;  // file by file, in the order of the file
};

std::string print(const Manifest& manifest);
// Throws Damaged, with half a sentence: why it is none.
Manifest parse_manifest(const std::string& text);

}  // namespace memtune::state
