// Lists the content of a saved state. A folder with manifest.json is a published state. The file has a checksum of
// itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/safetensors/dtype.h"

namespace memtune::state {

// A saved state is not what was written: incomplete, truncated, changed, or another program's. what() names it and why.
class DamagedSavedStateError : public UsageError {
 public:
  using UsageError::UsageError;
};

struct ManifestFileEntry {
  std::string name;  // in the state's folder
  int64_t bytes = 0;
  std::string hash;  // XXH3-128 of the whole file
};

// The position of a part in a tensor that several ranks share. The tensor's elements form a row, which the parts
// divide.
struct ShardExtent {
  std::vector<int64_t> whole;       // shape of the whole tensor
  std::vector<int64_t> order = {};  // of its dimensions in the row, outermost first; empty: as in the shape
  int64_t begin = 0;                // elements of the row before this part
  bool operator==(const ShardExtent&) const = default;
};
using ShardExtents = std::map<std::string, ShardExtent>;  // by tensor name; a tensor without one is whole

struct ManifestTensorEntry {
  std::string name;
  safetensors::Dtype dtype = safetensors::Dtype::f32;
  std::vector<int64_t> shape;
  size_t file = 0;                                 // index into StateManifest::files
  std::string hash;                                // XXH3-128 of its bytes
  std::optional<ShardExtent> part = std::nullopt;  // set for a part of a tensor, which has the shape of a row
};

// Settings of the training, by the names of their flags.
using Settings = std::map<std::string, std::string>;

struct StateManifest {
  int64_t step = 0;
  Settings settings;
  std::vector<ManifestFileEntry> files;      // one per rank
  std::vector<ManifestTensorEntry> tensors;  // file by file, in the order of each file
};

std::string print(const StateManifest& manifest);
// Throws Damaged. what() is only the reason, without the state's name.
StateManifest parse_manifest(const std::string& text);
// Throws Damaged if a tensor occurs twice, or if its parts do not make up the whole.
void check_whole(const StateManifest& manifest);

}  // namespace memtune::state
