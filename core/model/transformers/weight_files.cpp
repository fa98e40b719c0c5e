#include "core/model/transformers/weight_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json_object_reader.h"
#include "core/base/open_file.h"

namespace memtune::model {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Without git-lfs the files are pointer files. A path from an archive may be a pipe.
void check_weights(const fs::path& path) {
  require_file("the model's weights", path);
  constexpr std::string_view kFirstWords = "version https://git-lfs.";
  const RandomAccessFileReader file(path);
  std::string begin(kFirstWords.size(), '\0');
  if (file.size() < static_cast<int64_t>(begin.size())) return;
  file.read(begin.data(), static_cast<int64_t>(begin.size()), 0);
  if (begin == kFirstWords)
    throw UsageError("'" + path.string() + "' is a pointer of git-lfs, without the weights: git lfs pull brings them");
}

}  // namespace

std::vector<fs::path> weight_files(const fs::path& config) {
  const fs::path folder = config.parent_path(), whole = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(whole)) {
    check_weights(whole);
    return {whole};
  }
  if (!fs::exists(index)) return {};
  check_weights(index);
  const std::string name = index.filename().string();
  const json parsed = parse_json_object(name, read_file(index));
  if (!parsed.contains("weight_map") || !parsed["weight_map"].is_object())
    throw UsageError(name + ".weight_map is missing");
  std::vector<fs::path> files;
  for (const auto& [tensor, file] : parsed["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      throw UsageError(name + ".weight_map." + tensor + " must be a file's name");
    const fs::path path = folder / file.get<std::string>();
    if (!fs::exists(path))
      throw UsageError(name + ": there is no " + path.filename().string() + ", which has " + tensor);
    if (std::ranges::find(files, path) != files.end()) continue;
    check_weights(path);
    files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace memtune::model
