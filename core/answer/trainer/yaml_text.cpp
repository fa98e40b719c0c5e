#include "core/answer/trainer/yaml_text.h"

#include <libfyaml.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/answer/trainer/yaml_scalar.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;
using KeySpan = std::span<const std::string>;

constexpr size_t kMaxNodes = 1'000'000;
constexpr size_t kMaxBlankLines = 256;
constexpr size_t kMaxExpanded = size_t{64} << 20;  // bytes that aliases expand to
constexpr size_t kNodeBytes = 64;                  // of a value in JSON, without its text

enum class Kind { scalar, alias, list, mapping };

// A value with its place in the text. `begin` and `end` are without anchor and tag; of block text they are its lines.
struct Node {
  Kind kind = Kind::scalar;
  fy_scalar_style style = FYSS_PLAIN;
  bool flow = false, shared = false;     // in brackets; with an anchor
  size_t begin = 0, end = 0, outer = 0;  // bytes; `outer` is the begin with anchor and tag
  size_t line = 0, column = 0;           // of the begin; lines from 1
  std::string tag, text;
  std::vector<const Node*> items;  // of a mapping keys and values in turn
  const Node* target = nullptr;    // of an alias

  bool is_plain() const { return kind == Kind::scalar && style == FYSS_PLAIN && tag.empty(); }
  bool is_null() const { return is_plain() && plain_scalar(text).is_null(); }
};

bool is_block_text(const Node& node) { return node.style == FYSS_LITERAL || node.style == FYSS_FOLDED; }

size_t line_at(const std::string& text, size_t at) {
  return size_t(std::count(text.begin(), text.begin() + ptrdiff_t(at), '\n')) + 1;
}

size_t skip_blanks(const std::string& text, size_t at) {
  return std::min(text.find_first_not_of(" \t", at), text.size());
}

// Position of the line feed, or of "\r\n", that ends the line.
size_t line_end(const std::string& text, size_t at) {
  const size_t end = std::min(text.find('\n', at), text.size());
  return end > at && text[end - 1] == '\r' ? end - 1 : end;
}

size_t next_line(const std::string& text, size_t at) { return std::min(text.find('\n', at), text.size() - 1) + 1; }

// End of the text before `end` without blanks and line feeds.
size_t last_letter(const std::string& text, size_t end) {
  const size_t last = end == 0 ? std::string::npos : text.find_last_not_of(" \t\r\n", end - 1);
  return last == std::string::npos ? 0 : last + 1;
}

// Position after the colon of the key that ends at `at`; npos: it has none on its line.
size_t after_colon(const std::string& text, size_t at) {
  at = skip_blanks(text, at);
  return at < text.size() && text[at] == ':' ? at + 1 : std::string::npos;
}

// The text of a folded block ("> "), of which `lines` are the lines in the file. libfyaml 0.7.12 folds too much where a
// line is indented more than the others, so that only the begin and the end of its text count.
std::string folded(const std::string& lines, std::string text) {
  std::erase(text, '\0');
  const size_t begin = text.find_first_not_of('\n'), last = text.find_last_not_of('\n');
  if (begin == std::string::npos) return text;
  std::string result = text.substr(0, begin);
  std::optional<size_t> indent;
  size_t blank = 0;  // lines since the last one with text
  bool deeper = false;
  for (std::string line : split(lines, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    const size_t first = line.find_first_not_of(' ');
    if (!indent && first != std::string::npos) indent = first - (text.find_first_not_of(' ', begin) - begin);
    if (!indent) continue;
    if (line.size() <= *indent) {
      ++blank;
      continue;
    }
    const bool was_deeper = std::exchange(deeper, line[*indent] == ' ' || line[*indent] == '\t');
    if (result.size() > begin)
      result += was_deeper || deeper ? std::string(blank + 1, '\n') : blank > 0 ? std::string(blank, '\n') : " ";
    result += line.substr(*indent);
    blank = 0;
  }
  return result + text.substr(last + 1);
}

class Parser {
 public:
  Parser(const std::string& text, std::string name) : text_(text), name_(std::move(name)) {
    fy_diag_cfg diagnosis;
    fy_diag_cfg_default(&diagnosis);
    diagnosis.fp = nullptr;
    errors_.reset(fy_diag_create(&diagnosis));
    fy_diag_set_collect_errors(errors_.get(), true);
    fy_parse_cfg config{};
    config.flags = fy_parse_cfg_flags(FYPCF_QUIET | FYPCF_DEFAULT_VERSION_1_1 | FYPCF_JSON_NONE |
                                      FYPCF_SLOPPY_FLOW_INDENTATION | FYPCF_DISABLE_DEPTH_LIMIT);
    config.diag = errors_.get();
    parser_.reset(fy_parser_create(&config));
    if (!errors_ || !parser_ || fy_parser_set_string(parser_.get(), text.data(), text.size()) != 0)
      throw std::bad_alloc();
  }

  // Returns the root, nullptr for an empty text. The nodes live as long as this.
  const Node* parse() {
    const Node* root = nullptr;
    int documents = 0;
    for (const auto end = [this](fy_event* event) { fy_parser_event_free(parser_.get(), event); };;) {
      const std::unique_ptr<fy_event, decltype(end)> event(fy_parser_parse(parser_.get()), end);
      if (!event) break;
      if (event->type == FYET_DOCUMENT_START && ++documents > 1) {
        const fy_mark* const mark = fy_event_start_mark(event.get());
        refuse_line(name_, mark ? size_t(mark->line) + 1 : line_, "a second document begins, and a config has one");
      }
      if (const Node* const node = take(*event); node && open_.empty() && !root) root = node;
    }
    if (fy_parser_get_stream_error(parser_.get())) refuse_text();
    return root;
  }

 private:
  // Returns the node that the event completes or begins.
  const Node* take(fy_event& event) {
    switch (event.type) {
      case FYET_SCALAR: return scalar(event.scalar);
      case FYET_ALIAS: return alias(event.alias);
      case FYET_SEQUENCE_START: {
        const auto& start = event.sequence_start;
        return begin(Kind::list, start.sequence_start, start.anchor, start.tag);
      }
      case FYET_MAPPING_START: {
        const auto& start = event.mapping_start;
        return begin(Kind::mapping, start.mapping_start, start.anchor, start.tag);
      }
      case FYET_SEQUENCE_END: return end(event.sequence_end.sequence_end);
      case FYET_MAPPING_END: return end(event.mapping_end.mapping_end);
      default: return nullptr;
    }
  }

  Node& add(Kind kind, fy_token* token, fy_token* anchor, fy_token* tag) {
    if (nodes_.size() >= kMaxNodes)
      refuse_line(name_, line_, "it has more than 1000000 values: that is no config of a trainer");
    Node& node = nodes_.emplace_back();
    node.kind = kind;
    const fy_mark* const start = token ? fy_token_start_mark(token) : nullptr;
    if (start) {
      node.begin = start->input_pos;
      node.end = fy_token_end_mark(token)->input_pos;
      node.line = line_ = size_t(start->line) + 1;
      node.column = size_t(start->column);
    } else {
      node.begin = node.end = end_of_nothing();
      node.line = line_;
    }
    node.outer = node.begin;
    if (tag) {
      node.tag = text_of(tag);
      take_property(node, fy_token_start_mark(tag)->input_pos, fy_token_end_mark(tag)->input_pos, start);
    }
    if (anchor) {
      node.shared = kind != Kind::alias;
      const size_t sign = kind == Kind::alias ? 0 : 1;  // the letter before the anchor's name
      take_property(node, fy_token_start_mark(anchor)->input_pos - sign, fy_token_end_mark(anchor)->input_pos, start);
    }
    if (!open_.empty()) open_.back()->items.push_back(&node);
    return node;
  }

  static void take_property(Node& node, size_t begin, size_t end, bool has_text) {
    node.outer = std::min(node.outer, begin);
    if (!has_text) node.begin = node.end = std::max(node.end, end);
  }

  // Where an empty value is: after the colon of its key. Elsewhere unknown, 0.
  size_t end_of_nothing() const {
    if (open_.empty() || open_.back()->kind != Kind::mapping || open_.back()->items.size() % 2 == 0) return 0;
    const size_t key = open_.back()->items.back()->end, colon = after_colon(text_, key);
    return colon == std::string::npos ? key : colon;
  }

  static std::string text_of(fy_token* token) {
    size_t length = 0;
    const char* const text = token ? fy_token_get_text(token, &length) : nullptr;
    return text ? std::string(text, length) : std::string();
  }

  const Node* scalar(const fy_event_scalar_data& scalar) {
    Node& node = add(Kind::scalar, scalar.value, scalar.anchor, scalar.tag);
    if (scalar.value) {
      node.style = fy_scalar_token_get_style(scalar.value);
      node.text = text_of(scalar.value);
      if (node.style == FYSS_FOLDED) node.text = folded(text_.substr(node.begin, node.end - node.begin), node.text);
      // libfyaml ends the last line of block text although the file does not.
      if (is_block_text(node) && node.end == text_.size() && !text_.ends_with('\n') && node.text.ends_with('\n'))
        node.text.pop_back();
    }
    if (node.style == FYSS_SINGLE_QUOTED || node.style == FYSS_DOUBLE_QUOTED) {
      node.outer -= node.outer == node.begin ? 1 : 0;
      --node.begin, ++node.end;
    }
    if (scalar.anchor) anchors_[text_of(scalar.anchor)] = &node;
    return &node;
  }

  const Node* alias(const fy_event_alias_data& alias) {
    Node& node = add(Kind::alias, alias.anchor, nullptr, nullptr);
    node.outer = --node.begin;
    const std::string anchor = text_of(alias.anchor);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end() || std::ranges::count(open_, found->second) > 0)
      refuse_line(name_, node.line,
                  "*" + anchor + " is no value " + (found == anchors_.end() ? "above" : "that is complete"));
    node.target = found->second;
    return &node;
  }

  const Node* begin(Kind kind, fy_token* token, fy_token* anchor, fy_token* tag) {
    if (open_.size() >= size_t(kMaxNesting)) refuse_line(name_, line_, "it is nested deeper than 64 levels");
    Node& node = add(kind, token, anchor, tag);
    node.flow = node.end > node.begin;
    if (anchor) anchors_[text_of(anchor)] = &node;
    open_.push_back(&node);
    return nullptr;
  }

  const Node* end(fy_token* token) {
    Node& node = *open_.back();
    open_.pop_back();
    const fy_mark* const mark = token ? fy_token_end_mark(token) : nullptr;
    if (node.flow)
      node.end = mark ? mark->input_pos : node.end;
    else if (const Node* const last = node.items.empty() ? nullptr : node.items.back(); last && last->end > 0)
      node.end = last->end;
    else
      node.end = last_letter(text_, mark ? mark->input_pos : text_.size());
    return &node;
  }

  [[noreturn]] void refuse_text() {
    void* from = nullptr;
    const fy_diag_error* const error = fy_diag_errors_iterate(errors_.get(), &from);
    refuse_line(name_, error ? size_t(std::max(error->line, 1)) : line_,
                std::string("this is no YAML: ") + (error && error->msg ? error->msg : "it cannot be read"));
  }

  struct Free {
    void operator()(fy_diag* diagnosis) const { fy_diag_destroy(diagnosis); }
    void operator()(fy_parser* parser) const { fy_parser_destroy(parser); }
  };

  const std::string& text_;
  const std::string name_;
  std::unique_ptr<fy_diag, Free> errors_;
  std::unique_ptr<fy_parser, Free> parser_;
  std::deque<Node> nodes_;
  std::vector<Node*> open_;  // collections that have begun
  std::unordered_map<std::string, const Node*> anchors_;
  size_t line_ = 1;
};

// Values of nodes as PyYAML's SafeLoader constructs them.
class Values {
 public:
  explicit Values(std::string name) : name_(std::move(name)) {}

  json of(const Node& node, int depth = 0) {
    if (depth > kMaxNesting) refuse_line(name_, node.line, "it is nested deeper than 64 levels");
    if (aliases_ > 0) expand(node);
    switch (node.kind) {
      case Kind::alias: {
        ++aliases_;
        json value = of(*node.target, depth);
        --aliases_;
        return value;
      }
      case Kind::list: {
        check_tag(node, "seq");
        json value = json::array();
        for (const Node* const item : node.items) value.push_back(of(*item, depth + 1));
        return value;
      }
      case Kind::mapping: return mapping(node, depth);
      case Kind::scalar: return scalar(node);
    }
    return {};
  }

  std::string key(const Node& node) {
    const Node& own = node.target ? *node.target : node;
    if (own.kind != Kind::scalar) refuse_line(name_, node.line, "a key is a list or a mapping");
    if (node.target) expand(own);
    const json value = scalar(own);
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  static bool is_merge(const Node& key) { return key.is_plain() && key.text == "<<"; }

 private:
  static constexpr std::string_view kTag = "tag:yaml.org,2002:";

  void expand(const Node& node) {
    expanded_ += kNodeBytes + node.text.size();
    if (expanded_ > kMaxExpanded) refuse_line(name_, node.line, "aliases expand to more than 64 MiB");
  }

  [[noreturn]] void refuse_tag(const Node& node) const {
    refuse_line(name_, node.line,
                "the tag " + shorten(node.tag, 60) + " is not one of plain YAML, or the value is not of it");
  }

  void check_tag(const Node& node, std::string_view kind) const {
    if (!node.tag.empty() && node.tag != "!" && node.tag != std::string(kTag) + std::string(kind)) refuse_tag(node);
  }

  json mapping(const Node& node, int depth) {
    if (node.tag != std::string(kTag) + "set") check_tag(node, "map");
    json value = json::object();
    for (size_t i = 0; i < node.items.size(); i += 2)
      if (is_merge(*node.items[i])) merge(value, *node.items[i + 1], depth);
    for (size_t i = 0; i < node.items.size(); i += 2)
      if (!is_merge(*node.items[i])) value[key(*node.items[i])] = of(*node.items[i + 1], depth + 1);
    return value;
  }

  // PyYAML up to 6.0.3 takes a key from the first mapping of a list that has it, and 6.0.4 from the last.
  void merge(json& value, const Node& from, int depth) {
    const json merged = of(from, depth + 1);
    json all = json::object();
    for (const json& one : merged.is_array() ? merged : json::array({merged})) {
      if (!one.is_object()) refuse_line(name_, from.line, "'<<' merges something other than mappings");
      for (const auto& [key, member] : one.items())
        if (const auto [known, is_new] = all.emplace(key, member); !is_new && *known != member)
          refuse_line(name_, from.line, "'<<' merges different values of " + shorten(key, 60) + ": write it out");
    }
    value.update(all);
  }

  json scalar(const Node& node) const {
    if (node.tag.empty()) return node.style == FYSS_PLAIN ? plain_scalar(node.text) : json(node.text);
    const std::string_view tag = node.tag.starts_with(kTag) ? std::string_view(node.tag).substr(kTag.size()) : node.tag;
    if (tag == "!") return plain_scalar(node.text);
    if (tag == "str" || tag == "binary" || tag == "timestamp") return node.text;
    if (tag == "null") return nullptr;
    const json value = plain_scalar(node.text);
    if (tag == "float" && (node.text.ends_with("inf") || node.text.ends_with("nan"))) return node.text;
    if (tag == "float")
      for (const json& number : {plain_scalar(node.text + "."), value})
        if (number.is_number()) return number.get<double>();
    if ((tag == "int" && value.is_number_integer()) || (tag == "bool" && value.is_boolean())) return value;
    refuse_tag(node);
  }

  const std::string name_;
  size_t expanded_ = 0;
  int aliases_ = 0;  // aliases around the value
};

json value_of(const Node* root, const std::string& name) {
  if (!root || root->is_null()) return json::object();
  json whole = Values(name).of(*root);
  if (!whole.is_object()) refuse_line(name, root->line, "a config has keys with values, and this has none");
  return whole;
}

ConfigKeyLineNumbers lines_of(const Node& node, Values& values) {
  ConfigKeyLineNumbers lines{node.line, {}};
  if (node.kind == Kind::mapping)
    for (size_t i = 0; i < node.items.size(); i += 2) {
      ConfigKeyLineNumbers& below = lines.below[values.key(*node.items[i])];
      below = lines_of(*node.items[i + 1], values);
      below.line = node.items[i]->line;
    }
  return lines;
}

// "key: value"; a mapping has its members on separate lines.
std::string written(const std::string& head, const json& value, size_t indent) {
  if (!value.is_object() || value.empty()) return head + " " + write_value(value, false);
  std::string lines = head;
  for (const auto& [key, member] : value.items())
    lines += "\n" + written(std::string(indent + 2, ' ') + write_value(key, false) + ":", member, indent + 2);
  return lines;
}

json nested(KeySpan path, json value) {
  for (size_t i = path.size(); i > 0; --i) value = json{{path[i - 1], value}};
  return value;
}

// An edit of a text whose nodes are known.
class Editor {
 public:
  Editor(const std::string& text, bool as_json, KeySpan path, const std::string& name)
      : text_(text), as_json_(as_json), path_(path), name_(name), values_(name) {}

  std::string put(const Node* root, const std::optional<json>& value) {
    if (!root || root->is_null()) return value ? append(text_, text_.size(), path_, *value, 0) : text_;
    if (!as_json_ && root->items.empty() && value) {  // "{}"
      const size_t end = root->end + (text_.substr(root->end, 1) == "\n" ? 1 : 0);
      return append(std::string(text_).erase(root->begin, end - root->begin), root->begin, path_, *value, 0);
    }
    const Node* mapping = root;
    const Node *outer_key = nullptr, *outer = nullptr;  // mapping and key that `mapping` is in
    for (size_t depth = 0;; ++depth) {
      shared_ |= mapping->shared;
      if (mapping->kind != Kind::mapping) refuse_path(*mapping);
      const size_t index = index_of(*mapping, path_[depth]);
      const KeySpan below = path_.subspan(depth + 1);
      if (index == mapping->items.size() && !value) return text_;
      if (index == mapping->items.size())
        return mapping->flow ? insert_in_flow(*mapping, path_.subspan(depth), *value)
                             : append(text_, after(mapping->end), path_.subspan(depth), *value, mapping->column);
      const Node &key = *mapping->items[index], &old = *mapping->items[index + 1];
      if (below.empty() && !value) {
        if (mapping->items.size() > 2 || mapping->flow) return remove(*mapping, index);
        return outer ? replace(*outer, *outer_key, *mapping, json::object()) : remove(*mapping, index, "{}\n");
      }
      shared_ |= (below.empty() && old.shared);
      if (below.empty() || old.is_null()) return value ? replace(*mapping, key, old, nested(below, *value)) : text_;
      outer = mapping, outer_key = &key, mapping = &old;
    }
  }

  // Why the edited text would read otherwise than it should.
  [[noreturn]] void refuse_result() const {
    refuse_edit(name_, path_,
                shared_ ? "is in a value with an anchor, which others may have: write it out where it is used"
                        : "cannot be set where it stands: write it there by hand");
  }

 private:
  [[noreturn]] void refuse_path(const Node& node) const {
    refuse_edit(name_, path_,
                "cannot be set in '" + shorten(text_.substr(node.begin, line_end(text_, node.begin) - node.begin), 60) +
                    "' of line " + std::to_string(node.line) +
                    (node.target ? ", the value of another key: write it out here" : ", which is not a mapping"));
  }

  // Of a repeated key the last one, which counts; the number of items: there is none.
  size_t index_of(const Node& mapping, const std::string& key) {
    for (size_t i = mapping.items.size(); i > 0; i -= 2)
      if (!Values::is_merge(*mapping.items[i - 2]) && values_.key(*mapping.items[i - 2]) == key) return i - 2;
    return mapping.items.size();
  }

  // Adds a setting to a mapping in lines, on a new line after `at`.
  static std::string append(std::string text, size_t at, KeySpan path, const json& value, size_t indent) {
    const std::string head = std::string(indent, ' ') + write_value(path.front(), false) + ":";
    const bool ended = at == 0 || text[at - 1] == '\n' || text == kByteOrderMark;
    return text.insert(at, (ended ? "" : "\n") + written(head, nested(path.subspan(1), value), indent) + "\n");
  }

  // Begin of the line after a value, where the lines of block text end too.
  size_t after(size_t end) const { return end > 0 && text_[end - 1] == '\n' ? end : next_line(text_, end); }

  // Appends a member with the same blanks and line feeds that precede the last one.
  std::string insert_in_flow(const Node& mapping, KeySpan path, const json& value) const {
    std::string text = text_, member = write_value(nested(path, value), as_json_);
    member = member.substr(1, member.size() - 2);
    if (mapping.items.empty()) return text.replace(mapping.begin, mapping.end - mapping.begin, "{" + member + "}");
    const size_t key = mapping.items[mapping.items.size() - 2]->outer;
    const size_t before = text.find_last_not_of(" \t\r\n", key - 1) + 1;
    const std::string blank = before == key || before == 0 ? " " : text.substr(before, key - before);
    return text.insert(mapping.items.back()->end,
                       "," + (mapping.items.size() == 2 && key == mapping.begin + 1 ? " " : blank) + member);
  }

  std::string replace(const Node& mapping, const Node& key, const Node& old, const json& value) const {
    std::string text = text_;
    const size_t at = after_colon(text, key.end);
    if (at == std::string::npos && mapping.flow && old.begin == old.end)  // "{key}"
      return text.insert(key.end, ": " + write_value(value, as_json_));
    if (at == std::string::npos) refuse_result();
    const size_t end = std::max(last_letter(text, old.end), at);
    const bool on_line = mapping.flow || old.outer <= line_end(text, at) || is_block_text(old);
    const bool in_lines = value.is_object() && !value.empty() && !mapping.flow;
    const size_t first = !on_line             ? line_end(text, at)
                         : in_lines           ? at
                         : is_block_text(old) ? skip_blanks(text, at)
                                              : std::clamp(old.outer, at, end);
    text.erase(first, end - first);  // a comment between the key and a value below it stays
    if (in_lines) return text.insert(line_end(text, at), written("", value, mapping.column));
    const size_t place = on_line ? first : at;
    return text.insert(place, (text[place - 1] == ':' ? " " : "") + write_value(value, as_json_));
  }

  // The comments above it stay.
  std::string remove(const Node& mapping, size_t index, const char* instead = "") const {
    std::string text = text_;
    const Node &key = *mapping.items[index], &value = *mapping.items[index + 1];
    const size_t end = std::max(value.end, key.end);
    if (!mapping.flow) {
      const size_t feed = key.outer == 0 ? std::string::npos : text.rfind('\n', key.outer - 1);
      const size_t mark = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
      const size_t begin = feed == std::string::npos ? mark : feed + 1;
      return text.replace(begin, after(end) - begin, instead);
    }
    if (index + 2 < mapping.items.size()) return text.erase(key.outer, mapping.items[index + 2]->outer - key.outer);
    if (index == 0) return text.replace(mapping.begin, mapping.end - mapping.begin, "{}");
    return text.erase(mapping.items[index - 1]->end, end - mapping.items[index - 1]->end);
  }

  const std::string& text_;
  const bool as_json_;
  const KeySpan path_;
  const std::string& name_;
  Values values_;
  bool shared_ = false;  // the path goes through an anchor
};

// libfyaml reads some invalid UTF-8, and takes quadratic time for tag directives and for blank lines in a text. YAML
// readers end a line also where other tools do not.
void check_text(const std::string& text, const std::string& name) {
  if (const std::string valid = valid_utf8(text); valid != text)
    refuse_line(name, line_at(text, size_t(std::ranges::mismatch(text, valid).in1 - text.begin())), "this is no UTF-8");
  if (const size_t tag = text.starts_with("%TAG") ? 0 : text.find("\n%TAG"); tag != std::string::npos)
    refuse_line(name, line_at(text, tag + 1), "tag directives are not supported");
  for (size_t at = 0, line = 1, blank = 0; at < text.size(); at = next_line(text, at), ++line) {
    const size_t first = text.find_first_not_of(" \t\r", at);
    blank = first == std::string::npos || text[first] == '\n' ? blank + 1 : 0;
    if (blank > kMaxBlankLines) refuse_line(name, line, "more than 256 blank lines follow each other");
  }
  size_t first = text.find('\r');
  while (first != std::string::npos && text.compare(first, 2, "\r\n") == 0) first = text.find('\r', first + 1);
  for (const char* end : {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) first = std::min(first, text.find(end));
  if (first != std::string::npos)
    refuse_line(name, line_at(text, first),
                "YAML also ends a line at CR, U+0085, U+2028 and U+2029, one of which is here: write a line feed");
}

}  // namespace

json read_whole_yaml(const std::string& text, const std::string& name) {
  check_text(text, name);
  Parser parser(text, name);
  return value_of(parser.parse(), name);
}

json read_value(const std::string& text) {
  const std::string trimmed = trim(text);
  if (trimmed.empty() || std::string_view("[{\"'").find(trimmed.front()) == std::string_view::npos)
    return plain_scalar(trimmed);
  try {
    Parser parser(trimmed, "");
    const Node* const root = parser.parse();
    return root ? Values("").of(*root) : json();
  } catch (const UsageError&) {
    return trimmed;
  }
}

ConfigKeyLineNumbers lines_of_yaml(const std::string& text, const std::string& name) {
  Parser parser(text, name);
  Values values(name);
  const Node* const root = parser.parse();
  ConfigKeyLineNumbers lines = root ? lines_of(*root, values) : ConfigKeyLineNumbers();
  lines.line = 0;
  return lines;
}

std::string put_in_yaml(const std::string& text, KeySpan path, const std::optional<json>& value,
                        const std::string& name) {
  check_text(text, name);
  Parser parser(text, name);
  const Node* const root = parser.parse();
  json expected = value_of(root, name);
  Editor editor(text, false, path, name);
  std::string written = editor.put(root, value);
  try {
    if (put_in_value(expected, path, value) && read_whole_yaml(written, name) == expected) return written;
  } catch (const UsageError&) {  // the edit made the text unreadable
  }
  editor.refuse_result();
}

std::string put_in_json(const std::string& text, KeySpan path, const std::optional<json>& value,
                        const std::string& name) {
  json expected = parse_json(text, JsonDuplicateKeyPolicy::refused);
  Parser parser(text, name);
  Editor editor(text, true, path, name);
  std::string written = editor.put(parser.parse(), value);
  if (!put_in_value(expected, path, value) || !json::accept(written) || parse_json(written) != expected)
    editor.refuse_result();
  return written;
}

}  // namespace memtune::trainer

#ifdef __has_feature
#if __has_feature(address_sanitizer)
// libfyaml 0.7.12 loses a kilobyte for a text of many pieces.
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:fy_atom_iter_grow_chunk"; }  // NOLINT
#endif
#endif
