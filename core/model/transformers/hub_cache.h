// Finds models in huggingface_hub's cache on disk. The cache keeps them as models--ORG--NAME/snapshots/REVISION, and
// the newest revision of a branch in refs/BRANCH.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace memtune::model {

// True for "org/name" only, not for other paths.
bool is_hub_name(const std::string& name);

// $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

// Folder with the config.json of branch main, or of the only cached revision. Returns nothing if the model is not
// cached.
std::optional<std::filesystem::path> cached_model(const std::string& name);

}  // namespace memtune::model
