#include "core/sweep/launch/host_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::launch {
namespace {

constexpr size_t kLongestName = 255, kMaxDigits = 9;

[[noreturn]] void refuse(const std::string& kind, std::string_view text) {
  throw UsageError("'" + std::string(text.substr(0, 200)) + "' is no list of " + kind);
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text.front() == '-' || end.ec != std::errc() || end.ptr != text.data() + text.size()) return {};
  return value;
}

// Splits at commas outside brackets. None if brackets are not paired.
std::optional<std::vector<std::string_view>> split_outside(std::string_view text) {
  std::vector<std::string_view> parts;
  bool inside = false;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) return {};
      inside = !inside;
    } else if (text[i] == ',' && !inside) {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  if (inside) return {};
  parts.push_back(text.substr(start));
  return parts;
}

// Expands "001-003". Each number is padded to the width of the first.
std::optional<std::vector<std::string>> expand_range(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::optional<int> from = number(first);
  const std::optional<int> to = dash == std::string_view::npos ? from : number(text.substr(dash + 1));
  if (!from || !to || *to < *from || static_cast<size_t>(*to - *from) >= kMaxHosts || first.size() > kMaxDigits)
    return {};
  std::vector<std::string> numbers;
  for (int i = *from; i <= *to; ++i) {
    const std::string digits = std::to_string(i);
    numbers.push_back(std::string(first.size() - std::min(first.size(), digits.size()), '0') + digits);
  }
  return numbers;
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

// Expands "rack[1-2]node[1-4]". The last bracket varies fastest.
std::optional<std::vector<std::string>> expand_name(std::string_view text) {
  std::vector<std::string> names = {""};
  while (!text.empty()) {
    std::vector<std::string> ends;
    if (text.front() == '[') {
      const size_t close = text.find(']');
      for (const std::string& range : split(text.substr(1, close - 1), ',')) {
        const auto numbers = expand_range(range);
        if (!numbers || ends.size() + numbers->size() > kMaxHosts) return {};
        ends.insert(ends.end(), numbers->begin(), numbers->end());
      }
      text.remove_prefix(close + 1);
    } else {
      const std::string_view plain = text.substr(0, text.find('['));
      if (plain.size() > kLongestName || !std::ranges::all_of(plain, is_host_character)) return {};
      ends.emplace_back(plain);
      text.remove_prefix(plain.size());
    }
    if (names.size() * ends.size() > kMaxHosts || names.back().size() + ends.back().size() > kLongestName) return {};
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& end : ends) longer.push_back(name + end);
    names = std::move(longer);
  }
  if (names.front().empty()) return {};
  return names;
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view text) {
  std::vector<std::string> hosts;
  const auto parts = split_outside(text);
  if (!parts) refuse("hosts", text);
  for (const std::string_view part : *parts) {
    const auto names = expand_name(part);
    if (!names || hosts.size() + names->size() > kMaxHosts) refuse("hosts", text);
    hosts.insert(hosts.end(), names->begin(), names->end());
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    const size_t open = part.find("(x");
    const std::optional<int> count = number(std::string_view(part).substr(0, open));
    std::optional<int> times = 1;
    if (open != std::string::npos)
      times =
          part.ends_with(')') ? number(std::string_view(part).substr(open + 2, part.size() - open - 3)) : std::nullopt;
    if (!count || !times || counts.size() + static_cast<size_t>(*times) > kMaxHosts) refuse("counts", text);
    counts.insert(counts.end(), static_cast<size_t>(*times), *count);
  }
  return counts;
}

}  // namespace memtune::launch
