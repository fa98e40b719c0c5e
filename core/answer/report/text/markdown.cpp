#include "core/answer/report/text/markdown.h"

#include <algorithm>
#include <cctype>

#include "core/answer/report/alternatives.h"
#include "core/answer/report/explanation.h"
#include "core/answer/report/gain_over_user_config.h"
#include "core/answer/report/prediction.h"
#include "core/answer/report/saving.h"
#include "core/answer/report/text/columns.h"
#include "core/answer/report/words.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::TrialResultRow;

// Whether `text[i]` starts a list, rule or heading at the beginning of a line: "- ", "1. ", "---", "===".
bool begins_block(const std::string& text, size_t i) {
  const char next = i + 1 < text.size() ? text[i + 1] : ' ';
  if (i == 0)
    return std::string_view("-+=").find(text[i]) != std::string_view::npos && (next == ' ' || next == text[i]);
  return (text[i] == '.' || text[i] == ')') && next == ' ' && text.find_first_not_of("0123456789") == i;
}

// Escapes all markup in one line, also for tables. An underscore within a word is no markup.
std::string plain(const std::string& untrimmed) {
  const std::string text = trim(untrimmed);
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
    if (c == '\n') {
      result += ' ';
      continue;
    }
    if ((kMarks.find(c) != std::string::npos && !within_word(i)) || begins_block(text, i)) result += '\\';
    result += c;
  }
  return result;
}

std::string table_line(const std::vector<std::string>& cells) { return "| " + join(cells, " | ") + " |\n"; }

// A cell's text in bold if it is good. A lone '*' is a mark, not bold text.
std::string cell_text(const TableCell& cell) {
  const std::string text = plain(cell.text);
  return cell.paint == ReportTextHighlightKind::good && cell.text != "*" ? "**" + text + "**" : text;
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "- " + line + "\n";
  return text;
}

std::string list_of(const std::vector<ReportLabelAndExplanation>& terms) {
  std::vector<std::string> lines;
  for (const ReportLabelAndExplanation& each : terms)
    lines.push_back("**" + plain(each.term) + "**: " + plain(each.text));
  return list_of(lines);
}

// Collapsed by default. The blank lines make GitHub parse markup inside.
std::string details(const std::string& summary, const std::string& body) {
  return "\n<details><summary>" + summary + "</summary>\n\n" + body + "\n</details>\n";
}

// A code block. Its fence is longer than any fence in the text.
std::string code(const std::string& text) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += "`";
  std::string line = text;
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return fence + "sh\n" + line + "\n" + fence + "\n";
}

class Markdown {
 public:
  explicit Markdown(const Report& report) : report_(report) {
    for (const TrialResultRow* row : ranked(report.rows)) (worked(*row) ? fine_ : failed_).push_back(row);
  }

  std::string write() {
    put_head();
    put_verdict();
    if (!fine_.empty()) put_table();
    put_saving();
    put_notes();
    put_failed();
    put_findings();
    put_method();
    return std::move(text_) + "\nmemtune " + plain(report_.version) + "\n";
  }

 private:
  void put_head() {
    text_ = "## " + plain(report_.model.empty() ? "memtune" : report_.model) + "\n\n";
    for (const std::string& line : warnings(report_)) text_ += "**Warning:** " + plain(line) + "\n\n";
    if (!report_.device.empty()) text_ += plain(device_text(report_)) + "  \n";
    if (!report_.settings.empty()) text_ += plain(report_.settings) + "\n";
  }

  void put_verdict() {
    const RecommendationText said = verdict(report_);
    if (!said.head.empty()) text_ += "\n**" + said.head + ":** " + plain(said.text) + "\n";
    for (const BestTrialWithTrainerSettingsOrPythonPlan& alternative : alternatives(report_))
      text_ += "\n**" + plain(alternative.head) + ":** " + plain(alternative.text) + "\n";
    if (const std::string gained = gain_text(report_); !gained.empty())
      text_ += "\n**Gained:** " + plain(gained) + "\n";
    if (const std::string more = more_memory_text(report_); !more.empty())
      text_ += "\n**More memory:** " + plain(more) + "\n";
    if (const std::string told = predictions_text(report_); !told.empty())
      text_ += "\n**Predicted:** " + plain(told) + "\n";
    for (const TrialResultRow* row : fine_) {
      if (row->recommended) text_ += "\n" + plain(headline(report_, *row)) + "\n";
    }
  }

  void put_table() {
    const std::vector<TableColumn> columns = make_columns(report_, fine_);
    put_columns(columns);
    const std::vector<std::string> marks = legend(report_);
    if (!marks.empty()) text_ += "\n" + plain(join(marks, "; ")) + "\n";
    text_ += details("What the columns mean", list_of(meanings(columns)));
  }

  void put_columns(const std::vector<TableColumn>& columns) {
    std::vector<std::string> heads, rules;
    for (const TableColumn& column : columns) {
      heads.push_back(plain(column.head));
      rules.push_back(column.words ? ":--" : "--:");
    }
    text_ += "\n" + table_line(heads) + table_line(rules);
    for (size_t i = 0; i < columns.front().cells.size(); ++i) {
      std::vector<std::string> cells;
      for (const TableColumn& column : columns) cells.push_back(cell_text(column.cells[i]));
      text_ += table_line(cells);
    }
  }

  void put_saving() {
    const TrialResultRow* row = saving_row(report_);
    if (!row) return;
    const std::string advice = saving_advice(*row, report_.mtbf_s);
    if (!advice.empty()) text_ += "\n**Saving:** " + plain(advice) + "\n";
    const std::vector<TableColumn> columns = saving_columns(*row, report_.mtbf_s);
    if (!columns.empty()) put_columns(columns);
    std::vector<std::string> lines;
    for (const std::string& line : saving_failures(*row)) lines.push_back("✗ " + plain(line));
    if (!lines.empty()) text_ += "\n" + list_of(lines);
    if (!columns.empty()) text_ += details("What the columns mean", list_of(meanings(columns)));
  }

  void put_notes() {
    std::vector<std::string> lines;
    for (const std::string& note : notes(report_)) lines.push_back("note: " + plain(note));
    if (!lines.empty()) text_ += "\n" + list_of(lines);
  }

  void put_failed() {
    std::vector<std::string> lines;
    for (const TrialResultRow* row : failed_)
      lines.push_back("✗ " + plain(row->measurement.strategy) + ": " + plain(failure_text(*row)));
    if (!lines.empty()) text_ += details("Did not work (" + std::to_string(lines.size()) + ")", list_of(lines));
  }

  void put_findings() {
    std::vector<std::string> lines;
    for (const findings::Finding& finding : report_.findings) lines.push_back(plain(sentence(finding)));
    if (!lines.empty())
      text_ +=
          details("Findings in the recommended trial's trace (" + std::to_string(lines.size()) + ")", list_of(lines));
  }

  void put_method() {
    std::string body = list_of(method(report_));
    if (!report_.origin.command.empty()) body += "\n" + code(report_.origin.command);
    text_ += details("How it was measured", body);
  }

  const Report& report_;
  std::vector<const TrialResultRow*> fine_, failed_;
  std::string text_;
};

}  // namespace

std::string markdown(const Report& report) {
  const Report shown = printable(report);
  return Markdown(shown).write();
}

}  // namespace memtune::report
