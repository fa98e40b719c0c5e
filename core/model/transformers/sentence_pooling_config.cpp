#include "core/model/transformers/sentence_pooling_config.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json_object_reader.h"

namespace memtune::model {
namespace {

namespace fs = std::filesystem;

constexpr char kModules[] = "modules.json";

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw UsageError(where + ": " + what +
                   " is not supported. memtune convert --task embedding makes a model.pt2 of it; or measure the "
                   "training command: memtune sweep -- COMMAND");
}

// Older files have a truth value for each way of pooling.
SentencePoolingMethod read_pooling(const fs::path& path) {
  const std::string name = path.parent_path().filename().string() + "/" + path.filename().string();
  const nlohmann::json json = parse_json_object(name, read_file(path));
  JsonObjectReader object(json, name);
  std::vector<std::string> ways;
  if (const nlohmann::json* const way = object.find("pooling_mode"); way && way->is_string())
    ways.push_back(way->get<std::string>());
  else
    object.read("pooling_mode", ways);
  if (ways.empty())
    for (const auto& [field, way] : {std::pair("pooling_mode_cls_token", "cls"),
                                     {"pooling_mode_max_tokens", "max"},
                                     {"pooling_mode_mean_tokens", "mean"},
                                     {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
                                     {"pooling_mode_weightedmean_tokens", "weightedmean"},
                                     {"pooling_mode_lasttoken", "lasttoken"}}) {
      bool chosen = false;
      object.read(field, chosen);
      if (chosen) ways.emplace_back(way);
    }
  if (ways.empty() || ways == std::vector<std::string>{"mean"}) return SentencePoolingMethod::mean;
  if (ways == std::vector<std::string>{"cls"}) return SentencePoolingMethod::first;
  if (ways == std::vector<std::string>{"lasttoken"}) return SentencePoolingMethod::last;
  refuse(name, "pooling by " + (ways.size() > 1 ? "several ways" : ways.front()));
}

}  // namespace

SentencePoolingConfig read_sentence_modules(const fs::path& config, const TransformersConfig& model) {
  SentencePoolingConfig result;
  if (model.class_name.ends_with("ForCausalLM")) result.pooling = SentencePoolingMethod::last;
  const fs::path folder = config.parent_path();
  if (config.empty() || !fs::exists(folder / kModules)) return result;
  const nlohmann::json modules =
      nlohmann::json::parse(read_file(folder / kModules), nullptr, /*allow_exceptions=*/false);
  if (!modules.is_array()) throw UsageError(std::string(kModules) + " is no list of modules");
  for (const nlohmann::json& module : modules) {
    JsonObjectReader object(module, kModules);
    std::string type, path;
    object.read("type", type);
    object.read("path", path);
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling")
      result.pooling = read_pooling(folder / path / "config.json");
    else if (kind == "Normalize")
      result.normalized = true;
    else if (kind != "Transformer")
      refuse(kModules, "the module " + kind);
  }
  return result;
}

}  // namespace memtune::model
