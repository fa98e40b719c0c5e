#include "core/answer/trainer/config_key_line_numbers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/answer/trainer/yaml_scalar.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::trainer {

size_t ConfigKeyLineNumbers::line_of(std::span<const std::string> path) const {
  const auto found = path.empty() ? below.end() : below.find(path.front());
  return found == below.end() ? line : found->second.line_of(path.subspan(1));
}

std::string with_comments(const std::string& text, const std::vector<std::string>& comments, size_t line) {
  const size_t mark = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::vector<std::string> lines;
  std::optional<size_t> first;
  size_t number = 0;
  bool earlier = false;  // inside the comments of an earlier export
  for (std::string& one : split(text.substr(mark), '\n')) {
    if (++number == line) first = lines.size();
    earlier = one.starts_with("# memtune ") || (earlier && one.starts_with('#'));
    if (!earlier) lines.push_back(std::move(one));
  }
  if (!first) first = lines.back().empty() ? lines.size() - 1 : lines.size();
  lines.insert(lines.begin() + std::ptrdiff_t(*first), comments.begin(), comments.end());
  return text.substr(0, mark) + join(lines, "\n");
}

bool put_in_value(nlohmann::json& whole, std::span<const std::string> path,
                  const std::optional<nlohmann::json>& value) {
  nlohmann::json* at = &whole;
  for (const std::string& key : path.first(path.size() - 1)) {
    if (!value && at->is_object() && !at->contains(key)) return true;
    if (at->is_null()) *at = nlohmann::json::object();
    if (!at->is_object()) return false;
    at = &(*at)[key];
  }
  if (at->is_null() && value) *at = nlohmann::json::object();
  if (!at->is_object()) return at->is_null();
  if (value)
    (*at)[path.back()] = *value;
  else
    at->erase(path.back());
  return true;
}

void refuse_line(const std::string& name, size_t line, const std::string& why) {
  throw UsageError(name + ":" + std::to_string(line) + ": " + why);
}

void refuse_edit(const std::string& name, std::span<const std::string> path, const std::string& why) {
  throw UsageError(name + ": " + join(std::vector<std::string>(path.begin(), path.end()), ".") + " " + why);
}

}  // namespace memtune::trainer
