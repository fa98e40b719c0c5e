// The safetensors files beside a config.json of transformers that hold its weights.
#pragma once

#include <filesystem>
#include <vector>

namespace memtune::config {

// model.safetensors, or the shards that model.safetensors.index.json names, each once. Empty: there are none.
// UsageError for an index that makes no sense, or names a file that is not there.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& config);

}  // namespace memtune::config
