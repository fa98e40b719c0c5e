#include "core/model/transformers/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"

namespace memtune::model {
namespace {

namespace fs = std::filesystem;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_word(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text != "." && text != ".." && std::ranges::all_of(text, plain);
}

std::string main_revision(const fs::path& folder) try {
  return trim(read_file((folder / "refs" / "main").string()));
} catch (const IoError&) {
  return "";  // downloaded by tag or commit
}

}  // namespace

bool is_hub_name(const std::string& name) {
  const std::vector<std::string> parts = split(name, '/');
  return parts.size() == 2 && is_word(parts[0]) && is_word(parts[1]);
}

fs::path hub_cache() {
  if (const std::string cache = setting("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = setting("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = setting("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(setting("HOME")) / ".cache" : fs::path(cache)) / "huggingface" / "hub";
}

std::optional<fs::path> cached_model(const std::string& name) {
  if (!is_hub_name(name)) return {};
  const std::vector<std::string> parts = split(name, '/');
  const fs::path folder = hub_cache() / ("models--" + parts[0] + "--" + parts[1]);
  std::error_code failed;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder / "snapshots", failed))
    if (fs::exists(entry.path() / "config.json", failed)) found.push_back(entry.path());
  const std::string revision = main_revision(folder);
  const auto main = std::ranges::find_if(found, [&](const fs::path& path) { return path.filename() == revision; });
  if (main != found.end()) return *main;
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

}  // namespace memtune::model
