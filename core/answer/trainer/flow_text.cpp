#include "core/answer/trainer/flow_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    std::string title(word), upper(word);
    if (!title.empty()) title[0] = char(std::toupper(title[0]));
    std::ranges::transform(upper, upper.begin(), [](unsigned char letter) { return char(std::toupper(letter)); });
    return text == word || text == title || text == upper;
  });
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool has_only(std::string_view text, std::string_view letters) {
  return text.find_first_not_of(letters) == std::string_view::npos;
}

constexpr std::string_view kDigits = "0123456789_";

std::optional<int64_t> whole_in(std::string_view text, int base) {
  std::string digits(text);
  std::erase(digits, '_');
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

// "1:30:00": each part after the first is one or two digits below 60.
std::optional<int64_t> in_sixties(std::string_view text) {
  int64_t value = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t colon = std::min(text.find(':', at), text.size());
    const std::string_view part = text.substr(at, colon - at);
    const std::optional<int64_t> digits = has_only(part, kDigits) ? whole_in(part, 10) : std::nullopt;
    if (!digits || value > std::numeric_limits<int64_t>::max() / 60 - *digits) return {};
    if (at > 0 && (part.size() > 2 || *digits > 59 || part.find('_') != part.npos)) return {};
    value = value * 60 + *digits;
    at = colon + 1;
  }
  return value;
}

// A whole number of YAML 1.1: 1_000, 010 (octal), 0x1F, 0b11 and 1:30 (in sixties).
// https://yaml.org/type/int.html
std::optional<int64_t> yaml_whole(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return {};
  std::optional<int64_t> value;
  if (text.starts_with("0b")) {
    if (has_only(text.substr(2), "01_")) value = whole_in(text.substr(2), 2);
  } else if (text.starts_with("0x")) {
    if (has_only(text.substr(2), "0123456789abcdefABCDEF_")) value = whole_in(text.substr(2), 16);
  } else if (text.front() == '0' && text.size() > 1) {
    if (has_only(text, "01234567_")) value = whole_in(text, 8);
  } else if (text.find(':') != text.npos) {
    value = in_sixties(text);
  } else if (has_only(text, kDigits)) {
    value = whole_in(text, 10);
  }
  return value && negative ? -*value : value;
}

// A number of YAML 1.1 with a point, or with an exponent. YAML 1.1 takes "1e-5" for text, but the trainers' own classes
// make a number of it.
std::optional<double> yaml_real(std::string text) {
  const size_t point = text.find_first_of(".eE"), digit = text.find_first_of("0123456789");
  if (digit == text.npos || point == text.npos || text.find_first_not_of("+-0123456789_.eE") != text.npos) return {};
  const size_t sign = text.front() == '+' || text.front() == '-' ? 1 : 0, first = sign + (text[sign] == '.' ? 1 : 0);
  if (first >= text.size() || !std::isdigit(static_cast<unsigned char>(text[first]))) return {};
  std::erase(text, '_');
  return number<double>(text);
}

json plain(const std::string& text) {
  if (text.empty() || text == "~" || is_one_of(text, {"null"})) return nullptr;
  if (is_one_of(text, {"true", "yes", "on"})) return true;
  if (is_one_of(text, {"false", "no", "off"})) return false;
  if (const auto whole = yaml_whole(text)) return *whole;
  if (const auto real = yaml_real(text)) return *real;
  const std::string_view digits = std::string_view(text).substr(text.front() == '+' || text.front() == '-' ? 1 : 0);
  if (!digits.empty() && digits.front() != '0' && has_only(digits, "0123456789"))  // beyond 64 bits
    if (const auto real = number<double>(text)) return *real;
  return text;
}

std::string unquoted(const std::string& text) {
  if (text.front() == '"') {
    const json read = json::parse(text, nullptr, false);
    return read.is_string() ? read.get<std::string>() : text.substr(1, text.size() - 2);
  }
  std::string inside;
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    inside += text[at];
    if (text.compare(at, 2, "''") == 0 && at + 2 < text.size()) ++at;
  }
  return inside;
}

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n'; }

struct Node;
struct Member;

// A value and its position in the text; for a mapping also its members.
struct Node {
  size_t begin = 0, end = 0;
  json value;
  std::vector<Member> members;
};
struct Member {
  std::string key;
  size_t begin = 0;  // position of the key
  Node node;
};

struct Unreadable {};

class FlowReader {
 public:
  explicit FlowReader(std::string_view text, char assign = ':') : text_(text), assign_(assign) {}

  Node read_whole() {
    Node node = read(0);
    skip_blank();
    if (at_ != text_.size()) throw Unreadable();
    return node;
  }

 private:
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool begins_comment() const { return text_[at_] == '#' && (at_ == 0 || is_blank(text_[at_ - 1])); }

  void skip_blank() {
    if (at_ == 0 && text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    while (at_ < text_.size()) {
      if (begins_comment())
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (is_blank(text_[at_]))
        ++at_;
      else
        return;
    }
  }

  void expect(char letter) {
    if (next() != letter) throw Unreadable();
    ++at_;
  }

  Node read(int depth) {
    if (depth > kMaxNesting) throw Unreadable();
    skip_blank();
    if (next() == '{') return mapping(depth);
    if (next() == '[') return list(depth);
    Node node;
    node.begin = at_;
    node.value = scalar();
    node.end = at_;
    return node;
  }

  Node mapping(int depth) {
    Node node;
    node.begin = at_++;
    node.value = json::object();
    for (skip_blank(); next() != '}'; skip_blank()) {
      Member member;
      member.begin = at_;
      const json key = scalar();
      member.key = key.is_string() ? key.get<std::string>() : key.dump();
      skip_blank();
      expect(assign_);
      member.node = read(depth + 1);
      if (node.value.contains(member.key)) throw Unreadable();
      node.value[member.key] = member.node.value;
      node.members.push_back(std::move(member));
      skip_blank();
      if (next() != '}') expect(',');
    }
    node.end = ++at_;
    return node;
  }

  Node list(int depth) {
    Node node;
    node.begin = at_++;
    node.value = json::array();
    for (skip_blank(); next() != ']'; skip_blank()) {
      node.value.push_back(read(depth + 1).value);
      skip_blank();
      if (next() != ']') expect(',');
    }
    node.end = ++at_;
    return node;
  }

  json scalar() {
    if (next() == '"' || next() == '\'') return quoted();
    if (std::string_view("&*!|>%@`").find(next()) != std::string_view::npos) throw Unreadable();
    const size_t begin = at_;
    while (at_ < text_.size() && !ends_plain()) ++at_;
    while (at_ > begin && is_blank(text_[at_ - 1])) --at_;  // blanks that separate the value from a comment
    return plain(trim(text_.substr(begin, at_ - begin)));
  }

  bool ends_plain() const {
    const char letter = text_[at_], behind = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
    return std::string_view(",{}[]\n").find(letter) != std::string_view::npos || begins_comment() ||
           (letter == '=' && assign_ == '=') ||
           (letter == ':' && std::string_view(" \t\r\n,{}[]").find(behind) != std::string_view::npos);
  }

  json quoted() {
    const size_t begin = at_;
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
    while (quote == '\'' && at_ + 1 < text_.size() && text_[at_ + 1] == quote)
      at_ = std::min(text_.find(quote, at_ + 2), text_.size());
    if (at_ >= text_.size()) throw Unreadable();
    return unquoted(std::string(text_.substr(begin, ++at_ - begin)));
  }

  std::string_view text_;
  char assign_;  // between key and value
  size_t at_ = 0;
};

std::string nested(std::span<const std::string> path, const json& value, bool as_json) {
  json whole = value;
  for (size_t i = path.size(); i > 0; --i) whole = json{{path[i - 1], whole}};
  return write_value(whole, as_json);
}

// Appends a member with the same blanks and line feeds that precede the last member.
void insert(std::string& text, const Node& mapping, std::span<const std::string> path, const json& value, bool json) {
  std::string member = nested(path, value, json);
  member = member.substr(1, member.size() - 2);
  if (mapping.members.empty()) {
    text.replace(mapping.begin, mapping.end - mapping.begin, "{" + member + "}");
    return;
  }
  const Member& last = mapping.members.back();
  const size_t before = text.find_last_of(",{", last.begin - 1);
  std::string blank = text.substr(before + 1, last.begin - before - 1);
  if (blank.empty() || blank.find_first_not_of(" \t\r\n") != std::string::npos) blank = " ";
  text.insert(last.node.end, "," + blank + member);
}

void take_out(std::string& text, const Node& mapping, size_t index) {
  const std::vector<Member>& members = mapping.members;
  if (index + 1 < members.size())
    text.erase(members[index].begin, members[index + 1].begin - members[index].begin);
  else if (index > 0)
    text.erase(members[index - 1].node.end, members[index].node.end - members[index - 1].node.end);
  else
    text.replace(mapping.begin, mapping.end - mapping.begin, "{}");
}

// Text that all YAML readers read as text. With a leading digit or dot it could be a number, date or infinity.
bool is_plain(const std::string& text) {
  const auto may_stand = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '_' || letter == '.' || letter == '/' || letter == '-';
  };
  return !text.empty() && std::ranges::all_of(text, may_stand) &&
         std::string_view("-.0123456789").find(text.front()) == std::string_view::npos && plain(text) == json(text);
}

}  // namespace

json read_value(std::string_view text, char assign) {
  try {
    return FlowReader(text, assign).read_whole().value;
  } catch (const Unreadable&) {
    return trim(text);
  }
}

std::string write_value(const json& value, bool as_json) {
  if (as_json) return print_json(value);
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    return is_plain(text) ? text : print_json(value);
  }
  if (!value.is_structured()) return print_json(value);
  std::vector<std::string> parts;
  for (const auto& [key, member] : value.items())
    parts.push_back((value.is_object() ? write_value(key, false) + ": " : "") + write_value(member, false));
  return (value.is_object() ? "{" : "[") + join(parts, ", ") + (value.is_object() ? "}" : "]");
}

std::string put_in_flow(const std::string& text, std::span<const std::string> path, const std::optional<json>& value,
                        bool as_json) {
  std::string put = text;
  try {
    const Node root = FlowReader(text).read_whole();
    const Node* at = &root;
    for (size_t depth = 0; depth < path.size(); ++depth) {
      if (!at->value.is_object()) throw Unreadable();
      const auto found = std::ranges::find(at->members, path[depth], &Member::key);
      if (found == at->members.end()) {
        if (value) insert(put, *at, path.subspan(depth), *value, as_json);
        return put;
      }
      const bool last = depth + 1 == path.size();
      if (!value && last) {
        take_out(put, *at, size_t(found - at->members.begin()));
        return put;
      }
      if (last || found->node.value.is_null()) {
        if (!value) return put;
        std::string written = last ? write_value(*value, as_json) : nested(path.subspan(depth + 1), *value, as_json);
        if (put[found->node.begin - 1] == ':') written.insert(0, " ");
        put.replace(found->node.begin, found->node.end - found->node.begin, written);
        return put;
      }
      at = &found->node;
    }
    return put;
  } catch (const Unreadable&) {
    throw UsageError(join(std::vector<std::string>(path.begin(), path.end()), ".") + " cannot be set in '" +
                     shorten(text, 60) + "'");
  }
}

void check_edit(bool edited, std::span<const std::string> path, const std::string& name) {
  if (!edited)
    throw UsageError(name + ": " + join(std::vector<std::string>(path.begin(), path.end()), ".") +
                     " cannot be set where it stands: write it there by hand");
}

}  // namespace memtune::trainer
