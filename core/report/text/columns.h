// The columns of the table for the trials that worked: what they say, and which go first when the terminal is narrow.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/report/report.h"

namespace memtune::report {

// What a piece of text means, and the ANSI colors that say so in a terminal.
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

struct Column {
  std::string head;
  int importance = 0;  // those of the least are dropped first; kAlways: never
  bool words = false;  // left-aligned
  std::vector<Cell> cells;
  int gap = 2;          // blanks before it
  std::string meaning;  // of the head, where that does not say it by itself

  static constexpr int kAlways = 100;
  int width() const;
};

// A cell a row. Columns in which nothing is known (transfers where nothing moved) are left out.
std::vector<Column> make_columns(const Report& report, std::span<const result::Row* const> rows);

// What "times" and "less" are measured against, short enough for a column's head: "none" or "ref".
std::string reference_label(const Report& report);

// Drops columns until a line is at most `width` wide or only those are left that always stay. Gives their heads.
std::vector<std::string> drop_to_fit(std::vector<Column>& columns, int width);
int line_width(const std::vector<Column>& columns);

}  // namespace memtune::report
