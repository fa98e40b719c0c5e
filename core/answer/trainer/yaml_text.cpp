#include "core/answer/trainer/yaml_text.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/answer/trainer/flow_text.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;
using KeySpan = std::span<const std::string>;

Lines yaml_lines(const std::string& text) {
  Lines lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

// Position of a line end that YAML readers accept but that is no line feed; npos: none.
size_t other_line_end(const std::string& text) {
  size_t first = text.find('\r');
  while (first != std::string::npos && text.compare(first, 2, "\r\n") == 0) first = text.find('\r', first + 1);
  for (const char* end : {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) first = std::min(first, text.find(end));
  return first;
}

void append(std::string& text, const Lines& lines) {
  for (const std::string& line : lines) text += line + "\n";
}

size_t indent_of(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

bool is_blank_in_line(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

// Position of the colon after the key that a line begins with, which may be quoted; npos: no key.
size_t colon_of(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return first;
  const char quote = line[first] == '"' || line[first] == '\'' ? line[first] : '\0';
  size_t at = first + (quote != 0 ? 1 : 0);
  while (quote != 0 && at < line.size() && line[at] != quote) at += quote == '"' && line[at] == '\\' ? 2 : 1;
  if (quote != 0) at = line.find_first_not_of(" \t", at + 1);
  if (quote != 0 && (at == std::string::npos || line[at] != ':')) return std::string::npos;
  for (at = line.find(':', at); at != std::string::npos; at = line.find(':', at + 1))
    if (at + 1 == line.size() || is_blank_in_line(line[at + 1])) return at;
  return at;
}

// None if the line does not begin with a key.
std::optional<std::string> key_of(const std::string& line) {
  const size_t colon = colon_of(line);
  if (colon == 0 || colon == std::string::npos) return {};
  const std::string key = trim(line.substr(0, colon));
  if (key.empty()) return {};
  if (key.front() == '"' || key.front() == '\'') {
    const json text = read_value(key);
    return text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt;
  }
  const bool plain = std::string_view("[]{}#&*!|>%@`,").find(key.front()) == std::string_view::npos &&
                     !key.starts_with("- ") && !key.starts_with("---") && !key.starts_with("? ") &&
                     key.find(" #") == std::string::npos;
  return plain ? std::optional(key) : std::nullopt;
}

bool is_comment_or_blank(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos || line[first] == '#';
}

// Whether the line continues the value that began at `indent`: deeper, a list item, or a closing bracket.
bool is_continuation(const std::string& line, size_t indent) {
  if (indent_of(line) != indent) return indent_of(line) > indent;
  const char first = line[indent];
  return first == '\t' || first == ']' || first == '}' || line.substr(indent) == "-" ||
         line.compare(indent, 2, "- ") == 0;
}

// "---", optionally followed by blanks, a line end or a comment.
bool is_document_start(const std::string& line) {
  const std::string rest = line.starts_with("---") ? trim(line.substr(3)) : "no";
  return rest.empty() || (rest.starts_with("#") && line[3] != '#');
}

YamlDocument parse_at(const Lines& lines, size_t indent, const std::string& name) {
  YamlDocument document;
  Lines loose;
  for (const std::string& line : lines) {
    const bool open = !document.entries.empty() && !document.entries.back().key.empty();
    if (is_comment_or_blank(line)) {
      loose.push_back(line);
    } else if (is_continuation(line, indent) && open) {
      Lines& value = document.entries.back().lines;
      value.insert(value.end(), loose.begin(), loose.end());  // inside the value, so they may be text
      value.push_back(line);
      loose.clear();
    } else if (is_document_start(line) && document.entries.empty()) {
      document.entries.push_back({std::exchange(loose, {}), "", {line}});
    } else if (const auto key = indent_of(line) == indent ? key_of(line.substr(indent)) : std::nullopt) {
      document.entries.push_back({std::exchange(loose, {}), *key, {line}});
    } else {
      throw UsageError(name + " cannot be merged into: '" + shorten(trim(line), 60) + "' is no key at the top of a " +
                       (indent == 0 ? "document" : "mapping"));
    }
  }
  document.below = std::move(loose);
  return document;
}

// The first line of an entry: key, value on the same line, comment.
struct FirstLine {
  explicit FirstLine(const std::string& line) {
    const size_t colon = colon_of(line);
    head = line.substr(0, colon + 1);
    size_t end = line.size();
    for (size_t at = colon + 1, quote = 0; at < line.size(); ++at) {
      if (quote != 0 ? size_t(line[at]) == quote : line[at] == '"' || line[at] == '\'')
        quote = quote != 0 ? 0 : size_t(line[at]);
      else if (quote == 0 && line[at] == '#' && (line[at - 1] == ' ' || line[at - 1] == '\t')) {
        end = line.find_last_not_of(" \t", at - 1) + 1;
        break;
      }
    }
    value = trim(line.substr(colon + 1, end - colon - 1));
    comment = line.substr(end);
    if (trim(comment).empty()) comment.clear();
  }
  std::string head, value, comment;
};

// The lines after the first, without comments and blank lines.
Lines content_of(const YamlEntry& entry) {
  Lines content(entry.lines.begin() + 1, entry.lines.end());
  std::erase_if(content, is_comment_or_blank);
  return content;
}

bool is_item(const std::string& line) { return trim(line) == "-" || trim(line).starts_with("- "); }

bool is_block(const YamlEntry& entry) {
  const Lines content = content_of(entry);
  if (!FirstLine(entry.lines.front()).value.empty() || content.empty() || is_item(content.front())) return false;
  return content.front()[indent_of(content.front())] != '\t';
}

YamlDocument inside(const YamlEntry& entry, const std::string& name) {
  return parse_at({entry.lines.begin() + 1, entry.lines.end()}, indent_of(content_of(entry).front()), name);
}

// The value on the key's line and on the following lines, as flow text.
std::string flow_of(const YamlEntry& entry) {
  std::string text = entry.lines.front().substr(colon_of(entry.lines.front()) + 1);
  for (size_t i = 1; i < entry.lines.size(); ++i) text += "\n" + entry.lines[i];
  return text;
}

json value_of(const YamlEntry& entry, const std::string& name, int depth = 0) {
  if (depth > kMaxNesting) throw UsageError(name + ": " + entry.key + " is nested too deep");
  const FirstLine first(entry.lines.front());
  const Lines content = content_of(entry);
  if (is_block(entry)) {
    json value = json::object();
    for (const YamlEntry& member : inside(entry, name).entries) value[member.key] = value_of(member, name, depth + 1);
    return value;
  }
  if (first.value.starts_with('{') || first.value.starts_with('[')) return read_value(trim(flow_of(entry)));
  if (content.empty()) return read_value(first.value);
  if (!first.value.empty()) return trim(flow_of(entry));
  json list = json::array();
  for (const std::string& line : content) {
    if (!is_item(line)) return trim(flow_of(entry));
    list.push_back(read_value(FirstLine("item:" + trim(line).substr(1)).value));
  }
  return list;
}

// "key: value"; a mapping has its members on separate lines.
Lines written(const std::string& head, const json& value, size_t indent) {
  if (!value.is_object() || value.empty()) return {head + " " + write_value(value, false)};
  Lines lines = {head};
  for (const auto& [key, member] : value.items()) {
    const Lines below = written(std::string(indent + 2, ' ') + write_value(key, false) + ":", member, indent + 2);
    lines.insert(lines.end(), below.begin(), below.end());
  }
  return lines;
}

json nested(KeySpan path, json value) {
  for (size_t i = path.size(); i > 0; --i) value = json{{path[i - 1], value}};
  return value;
}

void put(YamlDocument& document, size_t indent, KeySpan path, const std::optional<json>& value,
         const std::string& name);

// Puts the setting into the entry's mapping. An empty entry becomes a mapping.
void put_inside(YamlEntry& entry, size_t indent, KeySpan path, const std::optional<json>& value,
                const std::string& name) {
  const FirstLine first(entry.lines.front());
  if (is_block(entry)) {
    YamlDocument below = inside(entry, name);
    put(below, indent_of(content_of(entry).front()), path, value, name);
    entry.lines.resize(1);
    if (below.entries.empty()) entry.lines.front() = first.head + " {}" + first.comment;
    for (const std::string& line : yaml_lines(below.text())) entry.lines.push_back(line);
  } else if (first.value.starts_with('{')) {
    const bool one_line = entry.lines.size() == 1;
    const std::string flow = put_in_flow(one_line ? first.value : trim(flow_of(entry)), path, value, false);
    entry.lines = yaml_lines(first.head + " " + flow + (one_line ? first.comment : ""));
  } else if (value_of(entry, name).is_null()) {
    if (value) entry.lines = written(first.head, nested(path, *value), indent);
  } else {
    throw UsageError(name + ": " + entry.key + " is '" + shorten(first.value, 60) + "', not a mapping with " +
                     path.front());
  }
}

void replace(YamlEntry& entry, size_t indent, const json& value, const std::string& name) {
  const FirstLine first(entry.lines.front());
  if (first.value.starts_with('&'))
    throw UsageError(name + ": " + entry.key + " has the anchor " + split(first.value, ' ').front() +
                     ", so that others may have its value: write it out where it is used");
  entry.lines = written(first.head, value, indent);
  entry.lines.front() += first.comment;
}

// The comments above it stay.
void take_out(YamlDocument& document, size_t index) {
  const Lines above = std::move(document.entries[index].above);
  document.entries.erase(document.entries.begin() + ptrdiff_t(index));
  Lines& next = index < document.entries.size() ? document.entries[index].above : document.below;
  next.insert(next.begin(), above.begin(), above.end());
}

void put(YamlDocument& document, size_t indent, KeySpan path, const std::optional<json>& value,
         const std::string& name) {
  YamlEntry* const entry = find_entry(document, path.front(), name);
  if (entry == nullptr) {
    const std::string head = std::string(indent, ' ') + write_value(path.front(), false) + ":";
    if (!value) return;
    Lines above = std::exchange(document.below, {});
    document.entries.push_back(
        {std::move(above), path.front(), written(head, nested(path.subspan(1), *value), indent)});
  } else if (path.size() > 1) {
    put_inside(*entry, indent, path.subspan(1), value, name);
  } else if (value) {
    replace(*entry, indent, *value, name);
  } else {
    take_out(document, size_t(entry - document.entries.data()));
  }
}

}  // namespace

std::string YamlDocument::text() const {
  std::string text = mark;
  for (const YamlEntry& entry : entries) {
    append(text, entry.above);
    append(text, entry.lines);
  }
  append(text, below);
  return text;
}

YamlDocument parse_yaml(const std::string& text, const std::string& name) {
  if (const size_t at = other_line_end(text); at != std::string::npos)
    throw UsageError(
        name + ":" + std::to_string(std::count(text.begin(), text.begin() + ptrdiff_t(at), '\n') + 1) +
        ": YAML also ends a line at CR, U+0085, U+2028 and U+2029, one of which is here: write a line feed");
  const size_t mark = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  YamlDocument document = parse_at(yaml_lines(text.substr(mark)), 0, name);
  document.mark = text.substr(0, mark);
  return document;
}

YamlEntry* find_entry(YamlDocument& document, const std::string& key, const std::string& name) {
  if (std::ranges::count(document.entries, key, &YamlEntry::key) > 1)
    throw UsageError(name + " has the key " + key + " twice");
  const auto found = std::ranges::find(document.entries, key, &YamlEntry::key);
  return found == document.entries.end() ? nullptr : &*found;
}

struct YamlValues::State {
  struct Known {
    const YamlEntry* entry = nullptr;
    bool twice = false;
    std::optional<json> value;
  };
  std::string name;
  YamlDocument document;
  std::map<std::string, Known> known;
};

YamlValues::YamlValues(const std::string& text, std::string name)
    : state_(std::make_unique<State>(State{std::move(name), {}, {}})) {
  state_->document = parse_yaml(text, state_->name);
  for (const YamlEntry& entry : state_->document.entries) {
    if (entry.key.empty()) continue;
    State::Known& known = state_->known[entry.key];
    known.twice = known.entry != nullptr;
    known.entry = &entry;
  }
}

YamlValues::~YamlValues() = default;

const json* YamlValues::find(const std::string& key) {
  const auto found = state_->known.find(key);
  if (found == state_->known.end()) return nullptr;
  State::Known& known = found->second;
  if (known.twice) throw UsageError(state_->name + " has the key " + key + " twice");
  if (!known.value) known.value = value_of(*known.entry, state_->name);
  return &*known.value;
}

std::vector<std::string> YamlValues::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, known] : state_->known) keys.push_back(key);
  return keys;
}

std::optional<json> read_yaml(const std::string& text, KeySpan path, const std::string& name) {
  YamlValues values(text, name);
  const json* value = values.find(path.front());
  for (const std::string& key : path.subspan(1)) {
    if (value == nullptr || !value->is_object() || !value->contains(key)) return {};
    value = &(*value)[key];
  }
  return value ? std::optional(*value) : std::nullopt;
}

std::string put_in_yaml(const std::string& text, KeySpan path, const std::optional<json>& value,
                        const std::string& name) {
  YamlDocument document = parse_yaml(text, name);
  put(document, 0, path, value, name);
  std::string written = document.text();
  check_edit(read_yaml(written, path, name) == value, path, name);
  return written;
}

}  // namespace memtune::trainer
