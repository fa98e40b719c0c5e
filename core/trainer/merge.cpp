#include "core/trainer/merge.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

// The key that a line at the document's top begins with; nothing where it begins with something else.
std::optional<std::string> key_of(const std::string& line) {
  const size_t end = line.find(':');
  if (end == 0 || end == std::string::npos) return {};
  if (end + 1 < line.size() && line[end + 1] != ' ' && line[end + 1] != '\t' && line[end + 1] != '\r') return {};
  std::string key = trim(line.substr(0, end));
  const bool quoted = key.size() > 1 && (key.front() == '"' || key.front() == '\'') && key.front() == key.back();
  if (quoted) key = key.substr(1, key.size() - 2);
  if (key.find_first_of(" \t\"'[]{}#&*!|>%@`,") != std::string::npos) return {};
  return key;
}

bool is_told_by_the_way(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos || line[first] == '#';
}

// It goes on with what the line above it began: indented, an item of a list, or the end of a list in brackets.
bool goes_on(const std::string& line) {
  return line.front() == ' ' || line.front() == '\t' || line.front() == ']' || line.front() == '}' || line == "-" ||
         line.starts_with("- ");
}

// A key with its value, and before it the comments and blank lines above.
struct Entry {
  Lines above;
  std::string key;  // "": the document's beginning, "---"
  Lines lines;
};

struct Document {
  std::vector<Entry> entries;
  Lines below;  // comments behind the last
};

Document parse(const std::string& text, const std::string& name) {
  Document document;
  Lines loose;
  for (const std::string& line : lines_of(text)) {
    if (is_told_by_the_way(line)) {
      loose.push_back(line);
    } else if (goes_on(line) && !document.entries.empty() && !document.entries.back().key.empty()) {
      Lines& lines = document.entries.back().lines;
      lines.insert(lines.end(), loose.begin(), loose.end());  // within the value, where they may be text
      lines.push_back(line);
      loose.clear();
    } else if (line == "---" && document.entries.empty()) {
      document.entries.push_back({std::exchange(loose, {}), "", {line}});
    } else if (const auto key = key_of(line)) {
      document.entries.push_back({std::exchange(loose, {}), *key, {line}});
    } else {
      throw UsageError("--into: " + name + " cannot be merged into: '" + shorten(line, 60) +
                       "' is no key at the top of a document");
    }
  }
  document.below = std::move(loose);
  return document;
}

void check_once(const Document& document, const std::string& key, const std::string& name) {
  if (std::ranges::count(document.entries, key, &Entry::key) > 1)
    throw UsageError("--into: " + name + " has the key " + key + " twice");
}

// What an earlier export wrote above its keys says nothing of these.
Lines without_earlier(Lines above) {
  const auto begin =
      std::ranges::find_if(above, [](const std::string& line) { return line.starts_with("# memtune "); });
  above.erase(begin, above.end());
  return above;
}

void append(std::string& text, const Lines& lines) {
  for (const std::string& line : lines) text += line + "\n";
}

}  // namespace

std::string merge(const std::string& config, const std::string& keys, const std::string& name) {
  Document document = parse(config, name), replacements = parse(keys, "what is exported");
  Lines comments = replacements.entries.empty() ? Lines() : std::exchange(replacements.entries.front().above, {});
  std::vector<Entry> added;
  for (Entry& wanted : replacements.entries) {
    check_once(document, wanted.key, name);
    const auto found = std::ranges::find(document.entries, wanted.key, &Entry::key);
    if (found != document.entries.end())
      found->lines = wanted.lines;
    else
      added.push_back(wanted);
  }
  const auto is_written = [&](const Entry& entry) {
    return std::ranges::count(replacements.entries, entry.key, &Entry::key) > 0;
  };
  std::string text;
  for (const Entry& entry : document.entries) {
    append(text, is_written(entry) ? without_earlier(entry.above) : entry.above);
    if (is_written(entry)) append(text, std::exchange(comments, {}));
    append(text, entry.lines);
  }
  append(text, document.below);
  append(text, comments);
  for (const Entry& entry : added) append(text, entry.lines);
  return text;
}

}  // namespace memtune::trainer
