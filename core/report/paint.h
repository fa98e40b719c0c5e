// What a piece of text means, and the ANSI colors that say so in a terminal.
#pragma once

#include <string>

namespace memtune::report {

enum class Paint { plain, bold, dim, good, bad, doubtful };

struct Cell {
  std::string text;
  Paint paint = Paint::plain;
};

inline std::string painted(const std::string& text, Paint paint, bool color) {
  constexpr const char* kCodes[] = {"", "1", "2", "1;32", "31", "33"};  // in the order of Paint
  if (!color || paint == Paint::plain || text.empty()) return text;
  return std::string("\x1b[") + kCodes[static_cast<int>(paint)] + "m" + text + "\x1b[0m";
}

}  // namespace memtune::report
