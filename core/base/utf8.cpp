#include "core/base/utf8.h"

#include <algorithm>

namespace memtune {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0 when it begins with none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t size = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : 4;
  if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Forms that are too long, halves of UTF-16 pairs, and what is beyond Unicode.
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) >= 0xA0) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;
  return size;
}

bool is_control(std::string_view text, size_t size) {
  const auto byte = static_cast<unsigned char>(text[0]);
  if (size == 1) return byte < 0x20 || byte == 0x7F;
  return size == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;  // U+0080 to U+009F
}

std::string without_controls(std::string_view text, char kept) {
  std::string result;
  while (!text.empty()) {
    const size_t size = character_bytes(text);
    const bool drop = size == 0 || (text[0] != kept && is_control(text, size));
    result += drop ? "\xEF\xBF\xBD" : text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t size = character_bytes(text);
    result += size == 0 ? "\xEF\xBF\xBD" : text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result;
}

std::string printable(std::string_view text) { return without_controls(text, '\n'); }

std::string printable_line(std::string_view text) { return without_controls(text, ' '); }

}  // namespace memtune
