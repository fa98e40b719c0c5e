#include "core/report/text/markdown.h"

#include <cctype>

#include "core/base/text.h"
#include "core/report/text/columns.h"
#include "core/report/words.h"
#include "core/result/ranking.h"

namespace memtune::report {
namespace {

using result::Row;

// One line in which nothing is markup, also within a table. An underscore within a word is none.
std::string plain(const std::string& text) {
  static const std::string kMarks = "\\`*_[]<>|#~&$";
  std::string result;
  const auto within_word = [&](size_t i) {
    const auto is_letter = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
    };
    return text[i] == '_' && i > 0 && is_letter(i - 1) && is_letter(i + 1);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) {
      result += ' ';
      continue;
    }
    if (kMarks.find(c) != std::string::npos && !within_word(i)) result += '\\';
    result += c;
  }
  return result;
}

std::string table_line(const std::vector<std::string>& cells) { return "| " + join(cells, " | ") + " |\n"; }

// The marks of the table's first column as words would be: a lone '*' is markup.
std::string cell_text(const Cell& cell) {
  const std::string text = plain(cell.text);
  return cell.paint == Paint::good && cell.text != "*" ? "**" + text + "**" : text;
}

std::string table_of(const Report& report, const std::vector<const Row*>& rows) {
  const std::vector<Column> columns = make_columns(report, rows);
  std::vector<std::string> heads, rules;
  for (const Column& column : columns) {
    heads.push_back(plain(trim(column.head)));
    rules.push_back(column.words ? ":--" : "--:");
  }
  std::string text = table_line(heads) + table_line(rules);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(cell_text(column.cells[i]));
    text += table_line(cells);
  }
  return text;
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "- " + line + "\n";
  return text.empty() ? text : "\n" + text;
}

}  // namespace

std::string markdown(const Report& any) {
  const Report report = printable(any);
  std::string text = "## " + plain(report.model.empty() ? "memtune" : report.model) + "\n\n";
  if (!report.device.empty()) text += plain(device_text(report)) + "  \n";
  if (!report.settings.empty()) text += plain(report.settings) + "\n";
  const Verdict said = verdict(report);
  if (!said.head.empty()) text += "\n**" + said.head + ":** " + plain(said.text) + "\n";
  std::vector<const Row*> fine;
  std::vector<std::string> failed, found, said_notes;
  for (const Row* row : ranked(report.rows)) {
    if (worked(*row))
      fine.push_back(row);
    else
      failed.push_back("✗ " + plain(row->measurement.strategy) + ": " + plain(failure_text(*row)));
  }
  if (!fine.empty()) text += "\n" + table_of(report, fine);
  const std::vector<std::string> marks = legend(report);
  if (!marks.empty()) text += "\n" + plain(join(marks, "; ")) + "\n";
  text += list_of(failed);
  for (const findings::Finding& finding : report.findings) found.push_back("finding: " + plain(sentence(finding)));
  text += list_of(found);
  for (const std::string& note : notes(report)) said_notes.push_back("note: " + plain(note));
  text += list_of(said_notes);
  return text + "\nmemtune " + plain(report.version) + "\n";
}

}  // namespace memtune::report
