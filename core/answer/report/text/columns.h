// Text tables: columns of cells, and which to drop first in a narrow terminal. make_columns() makes those of the trials
// that worked.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/answer/report/report.h"

namespace memtune::report {

// The meaning of a text, shown by ANSI colors in a terminal.
enum class ReportTextHighlightKind { plain, bold, dim, good, bad, doubtful };

struct TableCell {
  std::string text;
  ReportTextHighlightKind paint = ReportTextHighlightKind::plain;
};

inline std::string painted(const std::string& text, ReportTextHighlightKind paint, bool color) {
  constexpr const char* kCodes[] = {"", "1", "2", "1;32", "31", "33"};  // in the order of Paint
  if (!color || paint == ReportTextHighlightKind::plain || text.empty()) return text;
  return std::string("\x1b[") + kCodes[static_cast<int>(paint)] + "m" + text + "\x1b[0m";
}

struct TableColumn {
  std::string head;
  int importance = 0;  // columns of least importance are dropped first; kAlways: never
  bool words = false;  // left-aligned
  std::vector<TableCell> cells = {};
  int gap = 2;               // blanks before the column
  std::string meaning = "";  // explains the head; "" if that is clear

  static constexpr int kAlways = 100;
  int width() const;
};

// One cell per row. Columns without any figure (transfers if nothing was copied) are left out.
std::vector<TableColumn> make_columns(const Report& report, std::span<const result::TrialResultRow* const> rows);

// The reference's name in column heads: the strategy if short, otherwise "ref".
std::string reference_label(const Report& report);

// Drops columns until a line is at most `width` wide or only kAlways columns remain. Returns the dropped heads.
std::vector<std::string> drop_to_fit(std::vector<TableColumn>& columns, int width);
int line_width(const std::vector<TableColumn>& columns);

// Columns beyond `cells` are blank in the row.
void add_row(std::vector<TableColumn>& columns, std::vector<std::string> cells);

// One line, with its end and without blanks before that: the heads, in bold, or the cells of a row.
std::string heads_text(std::span<const TableColumn> columns, bool color = false);
std::string row_text(std::span<const TableColumn> columns, size_t row, bool color = false);

}  // namespace memtune::report
