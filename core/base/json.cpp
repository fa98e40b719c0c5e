#include "core/base/json.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/base/utf8.h"

namespace memtune {
namespace {

using nlohmann::json;

class Refused : public json::exception {
 public:
  explicit Refused(const std::string& why) : exception(0, why.c_str()) {}
};

[[noreturn]] void refuse(const json& value, const char* kind, const std::string& least, const std::string& most) {
  throw Refused(print_json(value).substr(0, 60) + " is no " + kind + " from " + least + " to " + most);
}

template <typename Read>
auto named(const char* key, Read read) try {
  return read();
} catch (const Refused& why) {
  throw Refused(std::string(key) + ": " + why.what());
}

// Checks the raw text, before any value is built.
void check_nesting(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting) throw Refused("it is nested deeper than " + std::to_string(kMaxNesting) + " levels");
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// Refuses repeated keys, in a pass over the raw text. A json::parse callback would take quadratic time, because
// nlohmann scans the parent object at the end of each nested one.
class UniqueKeys final : public nlohmann::json_sax<json> {
 public:
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    if (!open_.back().insert(name).second) throw Refused("'" + name + "' is there twice");
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }  // parse() reports it

 private:
  std::vector<std::set<std::string>> open_;
};

}  // namespace

json parse_json(std::string_view text, JsonDuplicateKeyPolicy keys) {
  check_nesting(text);
  if (keys == JsonDuplicateKeyPolicy::refused) {
    UniqueKeys unique;
    json::sax_parse(text, &unique);
  }
  return json::parse(text);
}

std::string not_json_text(std::string_view text, size_t byte) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  size_t begin = std::min(byte, text.size());
  begin -= begin > 0 ? 1 : 0;  // bytes are counted from 1
  size_t end = begin;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  while (end < text.size() && is_word(text[end])) ++end;
  const auto line = 1 + std::ranges::count(text.substr(0, begin), '\n');
  const std::string_view word = text.substr(begin, std::max(begin, end) - begin);
  const std::string place = " is not JSON: line " + std::to_string(line);
  const bool placeholder = !word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) != 0;
  if (!placeholder) return place;
  return place + ", '" + std::string(word.substr(0, 40)) +
         "' is no value; a template's placeholders have to be replaced";
}

// nlohmann itself escapes only characters below U+0020. The other escaped characters occur only in strings, and readers
// of YAML, TOML and Python accept the same escapes there.
std::string print_json(const json& value, int indent) {
  const std::string text = value.dump(indent, ' ', false, json::error_handler_t::replace);
  return with_escapes(text, '\n', [](char32_t code) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(code));
    return std::string(escape);
  });
}

int64_t whole(const json& value, int64_t least, int64_t most) {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t(std::numeric_limits<int64_t>::max())
                                               : value.is_number_integer();
  if (fits && value.get<int64_t>() >= least && value.get<int64_t>() <= most) return value.get<int64_t>();
  refuse(value, "whole number", std::to_string(least), std::to_string(most));
}

int64_t any_whole(const json& value) {
  return whole(value, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

int whole_int(const json& value, int least, int most) { return static_cast<int>(whole(value, least, most)); }

double number(const json& value, double least, double most) {
  const double read = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(read >= least && read <= most)) refuse(value, "number", print_json(least), print_json(most));
  return std::abs(read) < kMinNumber ? 0 : read;
}

double number_or_nan(const json& value) {
  const bool none = value.is_null() || (value.is_number() && std::abs(value.get<double>()) > kMaxNumber);
  return none ? std::numeric_limits<double>::quiet_NaN() : number(value);
}

int64_t whole_at(const json& object, const char* key, int64_t least, int64_t most) {
  return named(key, [&] { return whole(object.at(key), least, most); });
}

int whole_int_at(const json& object, const char* key, int least, int most) {
  return static_cast<int>(whole_at(object, key, least, most));
}

double number_at(const json& object, const char* key, double least, double most) {
  return named(key, [&] { return number(object.at(key), least, most); });
}

}  // namespace memtune
