// Finds the safetensors files with a model's weights, in the folder of its config.json.
#pragma once

#include <filesystem>
#include <vector>

namespace memtune::model {

// Returns model.safetensors, or the shards named in model.safetensors.index.json, each once; empty if there are none.
// Throws UsageError for an invalid index and for missing files.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& config);

}  // namespace memtune::model
