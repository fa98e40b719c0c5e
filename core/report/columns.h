// The columns of the table for the trials that worked: what they say, and which go first when the terminal is narrow.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/report/paint.h"
#include "core/report/report.h"

namespace memtune::report {

struct Column {
  std::string head;
  int importance = 0;  // those of the least are dropped first; kAlways: never
  bool words = false;  // left-aligned
  std::vector<Cell> cells;
  int gap = 2;  // blanks before it

  static constexpr int kAlways = 100;
  int width() const;
};

// A cell a row. Columns in which nothing is known (transfers where nothing moved) are left out.
std::vector<Column> make_columns(const Report& report, std::span<const result::Row* const> rows);

// What "times" and "less" are measured against, short enough for a column's head: "none" or "ref".
std::string reference_label(const Report& report);

// Drops columns until a line is at most `width` wide or only those are left that always stay.
void drop_to_fit(std::vector<Column>& columns, int width);
int line_width(const std::vector<Column>& columns);

}  // namespace memtune::report
