#include "core/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace memtune {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> older, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    older = std::exchange(above, row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({above[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, above[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) row[j + 1] = std::min(row[j + 1], older[j - 1] + 1);
    }
  }
  return row.back();
}

namespace {

// "ce" for "cross_entropy", "" for a single word.
std::string initials(std::string_view name) {
  std::string letters;
  for (const std::string& part : split(name, '_')) letters += part.substr(0, 1);
  return letters.size() > 1 ? letters : "";
}

template <typename Number>
Number parse_whole(std::string_view text, std::string_view what, const char* kind) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string quoted = std::string(what) + ": '" + std::string(text) + "'";
  if (error == std::errc::result_out_of_range) throw UsageError(quoted + " is out of range");
  if (error != std::errc{} || end != text.data() + text.size()) throw UsageError(quoted + " is not a " + kind);
  return number;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.emplace_back(text.substr(0, end));
  parts.emplace_back(text);
  return parts;
}

std::string trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::string nearest(std::string_view text, std::span<const std::string> candidates) {
  std::string best;
  size_t limit = (text.size() <= 3 ? 1 : std::max<size_t>(2, text.size() / 3)) + 1;
  for (const std::string& candidate : candidates) {
    if (!text.empty() && text == initials(candidate)) return candidate;
    const size_t distance = edit_distance(text, candidate);
    if (distance >= limit || distance >= std::max(text.size(), candidate.size())) continue;
    limit = distance;
    best = candidate;
  }
  return best;
}

std::string unknown_name(std::string_view kind, std::string_view text, std::span<const std::string> known) {
  std::string message = "unknown " + std::string(kind) + " '" + std::string(text) + "'";
  const std::string near = nearest(text, known);
  message += near.empty() ? "." : "; did you mean '" + near + "'?";
  return message + " Known: " + (known.empty() ? "none" : join(known, ", "));
}

std::string dashed(std::string_view text, size_t length) {
  std::string name;
  for (const unsigned char c : text) {
    if (std::isalnum(c))
      name += static_cast<char>(std::tolower(c));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  name.resize(std::min(name.size(), length));
  while (name.ends_with('-')) name.pop_back();
  return name;
}

std::string without_numbers(std::string_view path) {
  std::vector<std::string> parts = split(path, '.');
  for (std::string& part : parts)
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) part = "*";
  return join(parts, ".");
}

// '*' never crosses a dot and dots match only dots, so parts match one by one. Backtracking to the last star suffices.
bool glob_match(std::string_view pattern, std::string_view path) {
  size_t p = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < path.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == path[t] || (pattern[p] == '?' && path[t] != '.'))) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos && path[taken] != '.') {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

int64_t parse_integer(std::string_view text, std::string_view what) {
  return parse_whole<int64_t>(text, what, "whole number");
}

double parse_number(std::string_view text, std::string_view what) {
  const double number = parse_whole<double>(text, what, "number");
  if (!std::isfinite(number))
    throw UsageError(std::string(what) + ": '" + std::string(text) + "' is not a finite number");
  return number;
}

}  // namespace memtune
