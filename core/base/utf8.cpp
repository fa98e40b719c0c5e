#include "core/base/utf8.h"

#include <algorithm>

namespace memtune {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Size of the UTF-8 character at the start of `text`; 0 if it is invalid.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t size = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : 4;
  if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (!continues_character(text[i])) return 0;
  }
  // Overlong forms, UTF-16 surrogates, and values above U+10FFFF.
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) >= 0xA0) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;
  return size;
}

// Code point of the `size`-byte character at the start of `text`.
char32_t code_point(std::string_view text, size_t size) {
  char32_t code = static_cast<unsigned char>(text[0]) & (size == 1 ? 0x7F : 0x7F >> size);
  for (size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  return code;
}

bool is_within(char32_t code, char32_t first, char32_t last) { return first <= code && code <= last; }

// Characters that readers act on instead of showing them: control characters, line separators, bidirectional marks.
// Also the two that YAML forbids.
bool is_acted_on(char32_t code) {
  const bool control = code < 0x20 || is_within(code, 0x7F, 0x9F);
  const bool line_end = code == 0x2028 || code == 0x2029;  // the others are control characters
  const bool direction = code == 0x61C || code == 0x200E || code == 0x200F || is_within(code, 0x202A, 0x202E) ||
                         is_within(code, 0x2066, 0x2069);
  return control || line_end || direction || code == 0xFFFE || code == 0xFFFF;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t size = character_bytes(text);
    result += size == 0 ? kReplacement : text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result;
}

std::string with_escapes(std::string_view text, char kept, const std::function<std::string(char32_t)>& escape) {
  const std::string valid = valid_utf8(text);
  std::string result;
  for (std::string_view rest = valid; !rest.empty();) {
    const size_t size = character_bytes(rest);
    const char32_t code = code_point(rest, size);
    if (rest[0] != kept && is_acted_on(code))
      result += escape(code);
    else
      result += rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return result;
}

std::string printable(std::string_view text) {
  return with_escapes(text, '\n', [](char32_t) { return std::string(kReplacement); });
}

std::string printable_line(std::string_view text) {
  return with_escapes(text, ' ', [](char32_t) { return std::string(kReplacement); });
}

}  // namespace memtune
