#include "core/answer/trainer/toml_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/answer/trainer/flow_text.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;
using TomlKeys = std::vector<std::string>;

// The lines of one table head or setting. Comments and blank lines are entries without a path.
struct Entry {
  size_t begin = 0, end = 0;        // lines, `end` excluded
  TomlKeys path;                    // of the setting, including its table's keys; of a head, the table's
  std::string value;                // raw text
  bool head = false, many = false;  // "[table]"; "[[table]]"
  size_t table = 0;                 // number of leading keys of `path` that come from its table's head
};

TomlKeys toml_lines(const std::string& text) {
  TomlKeys lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Scans a value's first line: finds the start of a comment outside strings, and counts open brackets.
struct Scan {
  explicit Scan(const std::string& text) {
    for (size_t at = 0; at < text.size(); ++at) {
      const char letter = text[at];
      if (quote != 0) {
        if (letter == '\\' && quote == '"') ++at;
        if (letter == quote) quote = 0;
      } else if (letter == '"' || letter == '\'') {
        quote = letter;
      } else if (letter == '[' || letter == '{') {
        ++open;
      } else if (letter == ']' || letter == '}') {
        --open;
      } else if (letter == '#') {
        end = at;
        return;
      }
    }
  }
  size_t end = std::string::npos;
  int open = 0;
  char quote = 0;
};

std::string without_comment(const std::string& text) { return trim(text.substr(0, Scan(text).end)); }

std::optional<TomlKeys> keys_of(const std::string& text) {
  TomlKeys keys;
  for (const std::string& part : split(text, '.')) {
    const json key = read_value(trim(part));
    const std::string bare = key.is_string() ? key.get<std::string>() : trim(part);
    const auto may_stand = [](unsigned char letter) { return std::isalnum(letter) || letter == '_' || letter == '-'; };
    if (bare.empty() || !std::ranges::all_of(bare, may_stand)) return {};
    keys.push_back(bare);
  }
  if (keys.size() > size_t(kMaxNesting)) return {};
  return keys;
}

[[noreturn]] void refuse(const std::string& name, size_t line, const std::string& text) {
  throw UsageError(name + ":" + std::to_string(line + 1) + ": '" + shorten(trim(text), 60) +
                   "' is no TOML memtune reads");
}

bool starts_with(const TomlKeys& path, const TomlKeys& begin) {
  return path.size() >= begin.size() && std::equal(begin.begin(), begin.end(), path.begin());
}

// Number of lines of the value that begins in line `first`.
size_t lines_taken(const TomlKeys& lines, size_t first, const std::string& value, const std::string& name) {
  for (const std::string mark : {"\"\"\"", "'''"}) {
    if (!value.starts_with(mark)) continue;
    if (value.find(mark, 3) != std::string::npos) return 1;
    for (size_t at = first + 1; at < lines.size(); ++at)
      if (lines[at].find(mark) != std::string::npos) return at - first + 1;
    refuse(name, first, lines[first]);
  }
  int open = Scan(value).open;
  size_t at = first;
  while (open > 0 && ++at < lines.size()) open += Scan(lines[at]).open;
  if (open != 0) refuse(name, first, lines[first]);
  return at - first + 1;
}

// Tables in a list may repeat keys, so each [[table]] resets its keys.
void forget_below(std::set<TomlKeys>& seen, const TomlKeys& table) {
  for (auto at = seen.lower_bound(table); at != seen.end() && starts_with(*at, table);) at = seen.erase(at);
}

std::vector<Entry> parse(const TomlKeys& lines, const std::string& name) {
  std::vector<Entry> entries;
  std::set<TomlKeys> seen;
  TomlKeys table;
  for (size_t at = 0; at < lines.size();) {
    const std::string line = without_comment(lines[at]);
    Entry entry{at, at + 1, {}, "", false, false, table.size()};
    if (line.starts_with('[')) {
      entry.many = line.starts_with("[[");
      const size_t width = entry.many ? 2 : 1;
      if (line.size() < 2 * width || !line.ends_with(entry.many ? "]]" : "]")) refuse(name, at, line);
      const auto keys = keys_of(line.substr(width, line.size() - 2 * width));
      if (!keys) refuse(name, at, line);
      entry.head = true;
      entry.path = table = *keys;
    } else if (!line.empty()) {
      const size_t equals = lines[at].find('=');
      const auto keys = equals == std::string::npos ? std::nullopt : keys_of(lines[at].substr(0, equals));
      if (!keys) refuse(name, at, line);
      entry.path = table;
      entry.path.insert(entry.path.end(), keys->begin(), keys->end());
      entry.value = trim(lines[at].substr(equals + 1));
      entry.end = at + lines_taken(lines, at, entry.value, name);
      if (entry.end == at + 1) entry.value = without_comment(entry.value);
    }
    if (entry.many)
      forget_below(seen, entry.path);
    else if (!entry.path.empty() && !seen.insert(entry.path).second)
      throw UsageError(name + " has the key " + join(entry.path, ".") + " twice");
    at = entry.end;
    entries.push_back(entry);
  }
  return entries;
}

// Scalars and lists are read as in YAML, inline tables with "=". Text of several lines stays text.
json value_of(const Entry& entry) {
  if (entry.end > entry.begin + 1) return entry.value;
  return read_value(entry.value, '=');
}

std::string text_of(const json& value, const TomlKeys& path) {
  const bool list =
      value.is_array() && std::ranges::none_of(value, [](const json& one) { return one.is_structured(); });
  if (value.is_null() || (value.is_structured() && !list))
    throw UsageError(join(path, ".") + ": TOML has no such value on one line");
  return print_json(value);
}

std::string put_line(const std::string& text, const TomlKeys& path, const std::optional<json>& value,
                     const std::string& name) {
  TomlKeys lines = toml_lines(text);
  const TomlKeys table(path.begin(), path.end() - 1);
  const std::vector<Entry> entries = parse(lines, name);
  std::optional<size_t> behind;   // after the table's last setting
  const Entry* dotted = nullptr;  // the last "table.key = value", which makes the table without a head
  bool in_table = table.empty();
  if (in_table) behind = 0;
  for (const Entry& entry : entries) {
    if (entry.many && entry.path == table)
      throw UsageError(name + ": [[" + join(table, ".") + "]] is a list of tables");
    if (entry.head) in_table = entry.path == table;
    if (!entry.head && !entry.path.empty() && entry.path == table)
      throw UsageError(name + ": " + join(table, ".") + " is written in braces: write it as a table of its own");
    if (in_table && !entry.path.empty()) behind = entry.end;
    if (!entry.head && entry.table < table.size() && starts_with(entry.path, table)) dotted = &entry;
    if (entry.head || entry.path != path) continue;
    const std::string first = lines[entry.begin];
    const auto begin = lines.begin() + ptrdiff_t(entry.begin), end = lines.begin() + ptrdiff_t(entry.end);
    if (!value) {
      lines.erase(begin, end);
    } else {
      const size_t equals = first.find('='), comment = Scan(first).end;
      const bool keep = entry.end == entry.begin + 1 && comment != std::string::npos;
      const std::string written =
          first.substr(0, equals + 1) + " " + text_of(*value, path) + (keep ? "  " + first.substr(comment) : "");
      lines.erase(begin + 1, end);
      lines[entry.begin] = written;
    }
    return join(lines, "\n") + "\n";
  }
  if (!value) return text;
  const std::string line = path.back() + " = " + text_of(*value, path);
  if (dotted) {
    const TomlKeys above(table.begin() + ptrdiff_t(dotted->table), table.end());
    lines.insert(lines.begin() + ptrdiff_t(dotted->end), join(above, ".") + "." + line);
  } else if (behind) {
    lines.insert(lines.begin() + ptrdiff_t(*behind), line);
  } else {
    if (!lines.empty() && !trim(lines.back()).empty()) lines.emplace_back();
    lines.push_back("[" + join(table, ".") + "]");
    lines.push_back(line);
  }
  return join(lines, "\n") + "\n";
}

}  // namespace

json read_whole_toml(const std::string& text, const std::string& name) {
  json whole = json::object();
  for (const Entry& entry : parse(toml_lines(text), name)) {
    json* at = &whole;
    const size_t tables = entry.head ? entry.path.size() : entry.path.empty() ? 0 : entry.path.size() - 1;
    for (size_t i = 0; i < tables; ++i) {
      json& next = (*at)[entry.path[i]];
      if (!next.is_object()) next = json::object();
      at = &next;
    }
    if (!entry.head && !entry.path.empty()) (*at)[entry.path.back()] = value_of(entry);
  }
  return whole;
}

const json* find_in_toml(const json& whole, std::span<const std::string> path, const std::string& name) {
  const json* value = &whole;
  for (const std::string& key : path) {
    if (value->is_string() && value->get_ref<const std::string&>().starts_with('{'))
      throw UsageError(name + ": " + join(TomlKeys(path.begin(), path.end()), ".") +
                       " is in braces that memtune does not read");
    if (!value->is_object() || !value->contains(key)) return nullptr;
    value = &(*value)[key];
  }
  return value;
}

std::optional<json> read_toml(const std::string& text, std::span<const std::string> path, const std::string& name) {
  const json whole = read_whole_toml(text, name);
  const json* const value = find_in_toml(whole, path, name);
  return value ? std::optional(*value) : std::nullopt;
}

std::string put_in_toml(const std::string& text, std::span<const std::string> path, const std::optional<json>& value,
                        const std::string& name) {
  const std::string written = put_line(text, TomlKeys(path.begin(), path.end()), value, name);
  // Dotted keys and tables written twice may defeat the edit.
  check_edit(read_toml(written, path, name) == value, path, name);
  return written;
}

}  // namespace memtune::trainer
