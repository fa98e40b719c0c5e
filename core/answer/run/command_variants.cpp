#include "core/answer/run/command_variants.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

constexpr size_t kMaxVariants = 1000;
constexpr int kMaxVariantSteps = 1'000'000;

bool is_name(std::string_view text) {
  return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_') &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
}

struct Placeholder {
  size_t at = 0, end = 0;  // including the braces
  std::string name;
};

std::optional<Placeholder> next_placeholder(const std::string& word, size_t from) {
  for (size_t at = word.find('{', from); at != std::string::npos; at = word.find('{', at + 1)) {
    const size_t end = word.find('}', at);
    if (end == std::string::npos) break;
    const std::string name = word.substr(at + 1, end - at - 1);
    if (is_name(name) && (at == 0 || word[at - 1] != '$')) return Placeholder{at, end + 1, name};
  }
  return {};
}

std::set<std::string> placeholders(const std::vector<CommandVariant>& variants) {
  std::set<std::string> names;
  for (const CommandVariant& variant : variants)
    for (const std::string& word : variant.command)
      for (auto found = next_placeholder(word, 0); found; found = next_placeholder(word, found->end))
        if (variant.file_name.empty() || found->name != kConfigPlaceholder) names.insert(found->name);
  return names;
}

void check(const std::vector<CommandVariant>& variants, const std::vector<CommandPlaceholderSweepAxis>& axes) {
  const std::set<std::string> used = placeholders(variants);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!used.contains(axes[i].name))
      throw UsageError("--try " + axes[i].name + ": the command has no {" + axes[i].name + "}");
    for (size_t j = 0; j < i; ++j)
      if (axes[i].name == axes[j].name) throw UsageError("--try " + axes[i].name + " is given twice");
  }
  for (const std::string& name : used)
    if (name != kFolderPlaceholder && std::ranges::find(axes, name, &CommandPlaceholderSweepAxis::name) == axes.end())
      throw UsageError("the command has {" + name + "}, and no --try '" + name + "=...' says what that is");
}

using Values = std::vector<std::pair<std::string, std::string>>;  // name, value

std::vector<Values> combinations(const std::vector<CommandPlaceholderSweepAxis>& axes) {
  std::vector<Values> all = {{}};
  for (const CommandPlaceholderSweepAxis& axis : axes) {
    std::vector<Values> longer;
    for (const Values& before : all)
      for (const std::string& value : axis.values)
        longer.push_back(before), longer.back().emplace_back(axis.name, value);
    all = std::move(longer);
    if (all.size() > kMaxVariants)
      throw UsageError("--try: these are more than " + std::to_string(kMaxVariants) + " combinations");
  }
  return all;
}

// Marks the place of a variant's file path, and of the folder of a start. No word or value contains this byte.
constexpr char kConfigMark = '\0';
const std::string kFolderMark = std::string(1, kConfigMark) + kFolderPlaceholder + kConfigMark;

// Braces inside a value are not replaced.
std::string replaced(const std::string& word, const Values& values) {
  std::string text;
  size_t from = 0;
  while (const auto found = next_placeholder(word, from)) {
    const auto value = std::ranges::find(values, found->name, &Values::value_type::first);
    text += word.substr(from, found->at - from);
    text += value == values.end() ? word.substr(found->at, found->end - found->at) : value->second;
    from = found->end;
  }
  return text + word.substr(from);
}

CommandVariant variant_of(const CommandVariant& of, const Values& values,
                          const std::vector<CommandPlaceholderSweepAxis>& axes) {
  CommandVariant variant = of;
  std::vector<std::string> parts, training;
  if (!of.name.empty()) parts.push_back(of.name);
  for (size_t i = 0; i < values.size(); ++i) {  // in the order of the axes
    parts.push_back(values[i].first + "=" + values[i].second);
    if (axes[i].changes_training) training.push_back(parts.back());
  }
  variant.training = join(training, ", ");
  variant.name = parts.empty() ? "command" : join(parts, ", ");
  const std::string behind = variant.name.substr(std::min(of.name.size(), variant.name.size()));
  if (!of.own.empty()) variant.own += behind;
  for (std::string& part : variant.parts) part += behind;
  variant.command.clear();
  Values all = values;
  all.emplace_back(kFolderPlaceholder, kFolderMark);  // an axis of that name comes first
  if (!of.file_name.empty()) all.emplace_back(kConfigPlaceholder, std::string(1, kConfigMark));
  for (const std::string& word : of.command)
    if (std::string text = replaced(word, all); !text.empty() || word.empty()) variant.command.push_back(text);
  return variant;
}

}  // namespace

CommandPlaceholderSweepAxis parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  CommandPlaceholderSweepAxis axis{trim(text.substr(0, equals)), {}, false};
  if (equals == std::string::npos || !is_name(axis.name))
    throw UsageError("--try '" + text + "': write 'name=one;another', where the command has {name}");
  if (text.find_first_of("\n\r") != std::string::npos)
    throw UsageError("--try " + axis.name + ": a value is one line; what has several can stand in a file");
  for (const std::string& value : split(text.substr(equals + 1), ';')) {
    if (std::ranges::count(axis.values, trim(value)) > 0)
      throw UsageError("--try '" + text + "' has '" + trim(value) + "' twice");
    axis.values.push_back(trim(value));
  }
  return axis;
}

std::vector<CommandVariant> expand(const std::vector<CommandVariant>& variants,
                                   const std::vector<CommandPlaceholderSweepAxis>& axes) {
  check(variants, axes);
  std::vector<CommandVariant> all;
  for (const CommandVariant& variant : variants)
    for (const Values& values : combinations(axes)) all.push_back(variant_of(variant, values, axes));
  std::set<std::string> names;  // they identify trials
  for (const CommandVariant& variant : all)
    if (!names.insert(variant.name).second)
      throw UsageError("two variants have the name '" + variant.name + "': their values have commas and names in them");
  if (all.size() > kMaxVariants)
    throw UsageError("these are " + std::to_string(all.size()) + " variants; more than " +
                     std::to_string(kMaxVariants) + " are not tried in one sweep");
  return all;
}

bool has_placeholder(const std::vector<std::string>& command, const std::string& name) {
  return placeholders({{"", command, "", ""}}).contains(name);
}

std::filesystem::path config_file(const CommandVariant& variant) {
  return std::filesystem::path("config") / variant.file_name;
}

std::vector<std::string> with_paths(const CommandVariant& variant, const std::string& folder,
                                    const std::string& own_folder) {
  std::vector<std::string> words = variant.command;
  const std::string path = (std::filesystem::path(folder) / config_file(variant)).string();
  for (std::string& word : words) {
    for (size_t at = word.find(kFolderMark); at != std::string::npos; at = word.find(kFolderMark))
      word.replace(at, kFolderMark.size(), own_folder);
    word = join(split(word, kConfigMark), path);
  }
  return words;
}

void to_json(nlohmann::json& json, const CommandSweepSettingsAndVariants& sweep) {
  nlohmann::json variants = nlohmann::json::array(), skipped = nlohmann::json::array();
  for (const CommandVariant& each : sweep.variants)
    variants.push_back({{"name", each.name},
                        {"command", each.command},
                        {"file_name", each.file_name},
                        {"planned", each.planned},
                        {"training", each.training}});
  for (const SkippedCommandVariant& each : sweep.skipped)
    skipped.push_back({{"name", each.name}, {"reason", each.reason}});
  json = {{"command", sweep.command},
          {"trainer", sweep.trainer},
          {"variants", variants},
          {"skipped", skipped},
          {"warmup", sweep.warmup},
          {"steps", sweep.steps},
          {"memory_cap_bytes", sweep.memory_cap_bytes},
          {"native", sweep.native},
          {"no_plan", sweep.no_plan},
          {"notes", sweep.notes}};
}

void from_json(const nlohmann::json& json, CommandSweepSettingsAndVariants& sweep) {
  sweep.command = json.at("command");
  sweep.trainer = json.at("trainer");
  for (const nlohmann::json& each : json.at("variants")) {
    sweep.variants.push_back({each.at("name"), each.at("command"), each.at("file_name"), ""});
    sweep.variants.back().planned = each.value("planned", false);
    sweep.variants.back().training = each.value("training", "");
  }
  for (const nlohmann::json& each : json.at("skipped")) sweep.skipped.push_back({each.at("name"), each.at("reason")});
  sweep.warmup = whole_int_at(json, "warmup", 0, kMaxVariantSteps);
  sweep.steps = whole_int_at(json, "steps", 0, kMaxVariantSteps);
  sweep.memory_cap_bytes = whole_at(json, "memory_cap_bytes", 0, kMaxBytes);
  sweep.native = json.value("native", "");
  sweep.no_plan = json.value("no_plan", "");
  sweep.notes = json.value("notes", std::vector<std::string>());
}

}  // namespace memtune::sweep
