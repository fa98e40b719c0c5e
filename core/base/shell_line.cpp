#include "core/base/shell_line.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "core/base/utf8.h"

namespace memtune {
namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string("_./=:,+-%@").find(c) != std::string::npos;
}

// Escapes bytes that a terminal or an editor would act on, as bash and zsh do ($'\x1b').
std::string with_codes(const std::string& word) {
  std::string text = "$'";
  for (const unsigned char c : word) {
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", c);
    text += c < ' ' || c >= 0x7F || c == '\'' || c == '\\' ? std::string(code) : std::string(1, static_cast<char>(c));
  }
  return text + "'";
}

std::string quoted(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  if (printable(word) != word) return with_codes(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

}  // namespace memtune
