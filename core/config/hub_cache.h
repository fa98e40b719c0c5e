// Models that were downloaded from the Hugging Face hub lie in a cache on disk, which huggingface_hub keeps:
// models--ORG--NAME/snapshots/REVISION, with the newest revision of a branch in refs/BRANCH.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace memtune::config {

// "org/name" and nothing else: no path.
bool is_hub_name(const std::string& name);

// $HF_HUB_CACHE, $HF_HOME/hub, or ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

// The folder with the config.json of main, or of the only revision that is there; nothing: it was not downloaded.
std::optional<std::filesystem::path> cached_model(const std::string& name);

}  // namespace memtune::config
