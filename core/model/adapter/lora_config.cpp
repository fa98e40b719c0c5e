#include "core/model/adapter/lora_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/model/adapter/python_regex.h"

namespace memtune::model {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMaxRank = 1 << 16;
constexpr char kAllLinear[] = "all-linear";
const std::vector<std::string> kKeys = {"r", "alpha", "dropout", "targets", "rslora"};

// Fields of adapter_config.json: those that are read, and those without effect here, such as the model's origin or
// sizes for methods that are off.
constexpr std::array kRead = {"peft_type",
                              "r",
                              "lora_alpha",
                              "lora_dropout",
                              "use_rslora",
                              "target_modules",
                              "exclude_modules",
                              "layers_to_transform",
                              "layers_pattern",
                              "init_lora_weights",
                              "bias",
                              "rank_pattern",
                              "alpha_pattern"};
constexpr std::array kOfNoConcern = {
    "auto_mapping", "base_model_name_or_path", "revision",       "task_type",      "inference_mode",
    "peft_version", "megatron_core",           "fan_in_fan_out", "runtime_config", "qalora_group_size"};

bool ends_with_part(const std::string& path, const std::string& name) {
  return path == name || path.ends_with("." + name);
}

// Layer number in a path: the index in the first list of the path, or in the first of `lists` that matches.
std::optional<int64_t> layer_of(const std::string& path, const std::vector<std::string>& lists) {
  static const std::string kBelow = R"(\.([0-9]+)\..*)";
  if (lists.empty()) {
    static const PythonRegex any(".*?", "layers", "", R"(\.[^.]*)" + kBelow);
    if (const auto layer = any.last_group(path)) return parse_integer(*layer, "layer");
  }
  for (const std::string& list : lists)
    if (const auto layer = PythonRegex(list, "layers_pattern", "(?:|.*?\\.)(?:", ")" + kBelow).last_group(path))
      return parse_integer(*layer, "layer");
  return std::nullopt;
}

template <class Number>
Number of_path(const std::vector<std::pair<std::string, Number>>& patterns, const std::string& path, Number otherwise) {
  for (const auto& [pattern, number] : patterns)
    if (PythonRegex(pattern, "rank_pattern, alpha_pattern", "(?:.*\\.)?(?:", ")").matches(path)) return number;
  return otherwise;
}

void check(const LoraConfig& lora, const std::string& name) {
  if (lora.rank < 1 || lora.rank > kMaxRank)
    throw UsageError(name + ": r must be from 1 to " + std::to_string(kMaxRank) + ", not " + std::to_string(lora.rank));
  if (!std::isfinite(lora.alpha)) throw UsageError(name + ": alpha must be a finite number");
  if (!(lora.dropout >= 0 && lora.dropout < 1))
    throw UsageError(name + ": dropout must be at least 0 and below 1, not " + std::to_string(lora.dropout));
  if (!lora.all_linear && lora.targets.empty()) throw UsageError(name + ": no target modules");
  for (const auto& modules : {lora.targets, lora.excluded})
    if (modules.pattern) PythonRegex(*modules.pattern, name);
  lora.rank_of("");  // throws for invalid patterns
  lora.scale_of("");
  layer_of("", lora.layer_lists);
}

// --- text given to --lora --------------------------------------------------------------------------------------------

void set(LoraConfig& lora, const std::string& key, const std::string& value) {
  const std::string what = "--lora " + key;
  if (key == "r") lora.rank = parse_integer(value, what);
  if (key == "alpha") lora.alpha = parse_number(value, what);
  if (key == "dropout") lora.dropout = parse_number(value, what);
  if (key != "targets" || value == kAllLinear) return;
  lora.all_linear = false;
  if (value.find_first_of(R"(\()[]|*?^$)") != std::string::npos) {
    lora.targets.pattern = value;
    return;
  }
  lora.targets.names = split(value, '+');
  if (std::ranges::count(lora.targets.names, "") > 0)
    throw UsageError("--lora targets: names of modules, q_proj+v_proj, or all-linear; not '" + value + "'");
}

LoraConfig parse_typed(const std::string& text) {
  LoraConfig lora;
  std::vector<std::string> seen;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (std::ranges::find(kKeys, key) == kKeys.end()) throw UsageError("--lora: " + unknown_name("key", key, kKeys));
    if (std::ranges::find(seen, key) != seen.end()) throw UsageError("--lora: " + key + " is there twice");
    seen.push_back(key);
    if ((key == "rslora") != (equals == std::string::npos))
      throw UsageError("--lora: " + key + (key == "rslora" ? " takes no value" : " needs a value: " + key + "=..."));
    if (key == "rslora")
      lora.by_root = true;
    else
      set(lora, key, part.substr(equals + 1));
  }
  check(lora, "--lora");
  return lora;
}

// --- adapter_config.json ---------------------------------------------------------------------------------------------

class LoraReader {
 public:
  LoraReader(const fs::path& path, json given)
      : name_(path.filename().string()), given_(std::move(given)), object_(given_, name_) {
    lora_.file = path;
    const fs::path weights = path.parent_path() / "adapter_model.safetensors";
    if (!fs::exists(weights)) return;
    require_file("--lora", weights);
    lora_.weights = weights;
  }

  LoraConfig read() {
    refuse_others();
    std::string type = "LORA";
    object_.read("peft_type", type);
    if (type != "LORA") throw UsageError(name_ + ": peft_type " + type + " is not supported; LORA is");
    object_.read("r", lora_.rank);
    object_.read("lora_alpha", lora_.alpha);
    object_.read("lora_dropout", lora_.dropout);
    object_.read("use_rslora", lora_.by_root);
    read_modules();
    read_start();
    read_bias();
    read_patterns();
    check(lora_, name_);
    return std::move(lora_);
  }

 private:
  void read_modules() {
    lora_.targets = names("target_modules");
    lora_.all_linear = lora_.targets.pattern && is_all_linear(*lora_.targets.pattern);
    if (lora_.targets.empty())
      throw UsageError(name_ + ": target_modules is missing; peft then uses defaults of the model's class: name them");
    lora_.excluded = names("exclude_modules");
    if (const json* layers = object_.find("layers_to_transform"); layers && layers->is_number_integer())
      object_.read("layers_to_transform", lora_.layers.emplace_back(), 0);
    else
      object_.read("layers_to_transform", lora_.layers, 0);
    const ModuleSelector lists = names("layers_pattern");
    lora_.layer_lists = lists.pattern ? std::vector{*lists.pattern} : lists.names;
  }

  static bool is_all_linear(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
    return text == kAllLinear;
  }

  ModuleSelector names(const char* key) {
    ModuleSelector modules;
    const json* value = object_.find(key);
    if (value && value->is_string())
      modules.pattern = value->get<std::string>();
    else
      object_.read(key, modules.names);
    return modules;
  }

  void read_start() {
    const json* value = object_.find("init_lora_weights");
    if (!value || *value == json(true)) return;
    if (*value == json(false))
      lora_.start = LoraInit::noise;
    else if (*value == json("gaussian"))
      lora_.start = LoraInit::gaussian;
    else
      throw UsageError(name_ + ": init_lora_weights " + print_json(*value) +
                       " changes the model's weights, which is not supported; true, false and \"gaussian\" are");
  }

  void read_bias() {
    std::string bias = "none";
    object_.read("bias", bias);
    static const std::vector<std::string> known = {"none", "all", "lora_only"};
    const auto found = std::ranges::find(known, bias);
    if (found == known.end()) throw UsageError(name_ + ": " + unknown_name("bias", bias, known));
    lora_.bias = static_cast<LoraBias>(found - known.begin());
  }

  void read_patterns() {
    const auto each = [&](const char* key, const auto& take) {
      const json* value = object_.find(key);
      if (!value) return;
      JsonObjectReader patterns(*value, object_.path(key));
      for (const auto& [pattern, number] : value->items()) take(patterns, pattern);
    };
    each("rank_pattern", [&](JsonObjectReader& patterns, const std::string& pattern) {
      patterns.read(pattern.c_str(), lora_.ranks.emplace_back(pattern, 0).second, 1, kMaxRank);
    });
    each("alpha_pattern", [&](JsonObjectReader& patterns, const std::string& pattern) {
      patterns.read(pattern.c_str(), lora_.alphas.emplace_back(pattern, 0).second);
    });
  }

  // Refuses fields of adapter methods that are not supported.
  void refuse_others() const {
    const auto is_of = [](const auto& keys, const std::string& key) {
      return std::ranges::find(keys, key) != keys.end();
    };
    for (const auto& [key, value] : given_.items())
      if (!is_of(kRead, key) && !is_of(kOfNoConcern, key))
        throw UsageError(name_ + ": " + key + " " + print_json(value) +
                         " is not supported; of adapters memtune knows " +
                         join(std::vector<std::string>(kRead.begin(), kRead.end()), ", "));
  }

  std::string name_;
  json given_;
  JsonObjectReader object_;
  LoraConfig lora_;
};

// Drops fields that are off: null, false or empty. init_lora_weights false has a meaning and is kept.
json without_off(const json& given) {
  json kept = json::object();
  for (const auto& [key, value] : given.items())
    if (key == "init_lora_weights" ? !value.is_null() : !value.empty() && value != json(false) && value != json(""))
      kept[key] = value;
  return kept;
}

LoraConfig read_file_of(const fs::path& path) {
  json parsed;
  const std::string text = read_file(path);
  try {
    parsed = parse_json(text, JsonDuplicateKeyPolicy::refused);
  } catch (const json::parse_error& error) {
    throw UsageError(path.string() + not_json_text(text, error.byte));
  } catch (const json::exception& error) {
    throw UsageError(path.string() + ": " + error.what());
  }
  if (!parsed.is_object()) throw UsageError(path.string() + " must be an object");
  return LoraReader(path, without_off(parsed)).read();
}

// Path of the adapter file; empty if `text` names none.
fs::path file_of(const std::string& text) {
  std::error_code error;
  if (fs::is_directory(text, error)) return fs::path(text) / "adapter_config.json";
  if (fs::exists(text, error) || text.ends_with(".json") || text.find('/') != std::string::npos) return text;
  return {};
}

}  // namespace

bool ModuleSelector::has(const std::string& path) const {
  if (pattern) return PythonRegex(*pattern, "module names").matches(path);
  return std::ranges::any_of(names, [&](const std::string& name) { return ends_with_part(path, name); });
}

bool LoraConfig::is_target(const std::string& path) const {
  if (targets.has(path)) return true;
  const std::string_view base = "model.";
  if (!of_whole || !targets.pattern || !path.starts_with(base)) return false;
  const std::string rest = path.substr(base.size());
  return targets.has("model.language_model." + rest) || targets.has("language_model.model." + rest);
}

bool LoraConfig::adapts(const std::string& path, bool is_head) const {
  if (excluded.has(path)) return false;
  if (all_linear) return !is_head;
  if (!is_target(path)) return false;
  if (targets.pattern || layers.empty() || std::ranges::find(targets.names, path) != targets.names.end()) return true;
  const std::optional<int64_t> layer = layer_of(path, layer_lists);
  return layer && std::ranges::find(layers, *layer) != layers.end();
}

int64_t LoraConfig::rank_of(const std::string& path) const { return of_path(ranks, path, rank); }

double LoraConfig::scale_of(const std::string& path) const {
  const auto size = static_cast<double>(rank_of(path));
  return of_path(alphas, path, alpha) / (by_root ? std::sqrt(size) : size);
}

LoraConfig parse_lora(const std::string& text) {
  const fs::path file = file_of(text);
  if (file.empty()) return parse_typed(text);
  require_file("--lora", file);
  return read_file_of(file);
}

std::string canonical_lora(const std::string& text) {
  const fs::path file = file_of(text);
  return file.empty() ? text : fs::absolute(file).string();
}

}  // namespace memtune::model
