#include "core/answer/trainer/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/base/json.h"
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

// Text that all YAML readers read as text. With a leading digit or dot it could be a number, date or infinity.
bool is_plain(const std::string& text) {
  const auto may_stand = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '_' || letter == '.' || letter == '/' || letter == '-';
  };
  return !text.empty() && std::ranges::all_of(text, may_stand) &&
         std::string_view("-.0123456789").find(text.front()) == std::string_view::npos &&
         plain_scalar(text) == json(text);
}

}  // namespace

json plain_scalar(const std::string& text) {
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

}  // namespace memtune::trainer
