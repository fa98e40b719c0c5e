#include "core/answer/report/text/table.h"

#include <algorithm>

#include "core/answer/report/alternatives.h"
#include "core/answer/report/explanation.h"
#include "core/answer/report/gain_over_user_config.h"
#include "core/answer/report/memory_owners.h"
#include "core/answer/report/oom_text.h"
#include "core/answer/report/prediction.h"
#include "core/answer/report/ranks.h"
#include "core/answer/report/saving.h"
#include "core/answer/report/text/columns.h"
#include "core/answer/report/time_text.h"
#include "core/answer/report/words.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::TrialMeasurement;
using result::TrialResultRow;

constexpr const char* kIndent = " ";
constexpr size_t kFindingsShown = 3;
constexpr int kProseWidth = 110;  // longer lines are hard to read, even in a wide terminal

class Table {
 public:
  Table(const Report& report, TerminalCapabilities style) : report_(report), style_(style) {
    for (const TrialResultRow* row : ranked(report.rows)) {
      (worked(*row) ? worked_ : failed_).push_back(row);
      strategy_width_ = std::max(strategy_width_, display_width(display_name(*row)));
    }
  }

  std::string print() {
    for (const std::string& line : warnings(report_))
      put_text(std::string(kIndent) + "Warning: ", line, ReportTextHighlightKind::doubtful);
    put_title();
    if (report_.rows.empty()) text_ += std::string(kIndent) + "no trials\n";
    if (!worked_.empty()) put_worked();
    for (const TrialResultRow* row : failed_) put_failed(*row);
    put_ranks();
    put_memory();
    put_legend();
    put_recommendation();
    put_time();
    put_saving();
    put_findings();
    put_notes();
    put_origin();
    return std::move(text_);
  }

 private:
  std::string painted(const std::string& text, ReportTextHighlightKind paint) const {
    return report::painted(text, paint, style_.color);
  }

  // Wraps prose after `lead` and indents its further lines by the width of `lead`.
  void put_text(const std::string& lead, const std::string& text, ReportTextHighlightKind lead_paint,
                ReportTextHighlightKind paint = ReportTextHighlightKind::plain) {
    int lead_width = display_width(lead);
    std::string before = painted(lead, lead_paint);
    for (const std::string& line : wrap(text, std::max(24, std::min(style_.width, kProseWidth) - lead_width))) {
      text_ += before + painted(line, paint) + "\n";
      before = std::string(lead_width, ' ');
    }
  }

  void put_title() {
    const std::string title =
        report_.model + (report_.model.empty() || report_.device.empty() ? "" : " · ") + device_text(report_);
    if (!title.empty()) put_text(kIndent, title, ReportTextHighlightKind::plain, ReportTextHighlightKind::bold);
    if (!report_.settings.empty())
      put_text(kIndent, report_.settings, ReportTextHighlightKind::plain, ReportTextHighlightKind::dim);
    if (!title.empty() || !report_.settings.empty()) text_ += "\n";
  }

  void put_worked() {
    std::vector<TableColumn> columns = make_columns(report_, worked_);
    columns[1].head = pad_right("strategy", strategy_width_);  // as wide as in the lines of failed trials
    left_out_ = drop_to_fit(columns, style_.width);
    for (const TableColumn& column : columns) {
      if (!column.words && !column.meaning.empty()) meanings_.push_back(trim(column.head) + ": " + column.meaning);
    }
    put_columns(columns);
    if (!failed_.empty()) put_rule(line_width(columns) - 1);
  }

  void put_columns(const std::vector<TableColumn>& columns) {
    text_ += heads_text(columns, style_.color);
    put_rule(line_width(columns) - 1);
    for (size_t i = 0; i < columns.front().cells.size(); ++i) text_ += row_text(columns, i, style_.color);
  }

  void put_rule(int width) {
    std::string rule;
    for (int i = 0; i < width; ++i) rule += "─";
    text_ += kIndent + painted(rule, ReportTextHighlightKind::dim) + "\n";
  }

  void put_failed(const TrialResultRow& row) {
    const TrialMeasurement& m = row.measurement;
    const bool skipped = m.outcome == result::TrialOutcome::skipped;
    put_text(kIndent + ((skipped ? "– " : "✗ ") + pad_right(m.strategy, strategy_width_)) + "  ", failure_text(row),
             skipped ? ReportTextHighlightKind::dim : ReportTextHighlightKind::bad);
    if (m.oom) put_text("   Why: ", oom_text(*m.oom), ReportTextHighlightKind::bold);
  }

  void put_ranks() {
    const std::vector<TableColumn> columns = rank_columns(report_);
    if (columns.empty()) return;
    text_ += "\n";
    put_columns(columns);
  }

  void put_memory() {
    const TrialResultRow* row = memory_row(report_);
    if (!row) return;
    text_ += "\n";
    put_text(kIndent, owner_title(*row->measurement.memory), ReportTextHighlightKind::plain,
             ReportTextHighlightKind::bold);
    put_columns(owner_columns(*row->measurement.memory));
    for (const std::string& text : owner_texts(*row->measurement.memory))
      put_text(kIndent, text, ReportTextHighlightKind::plain, ReportTextHighlightKind::dim);
  }

  void put_legend() {
    const std::vector<std::string> parts = legend(report_);
    if (!parts.empty() || !meanings_.empty() || !left_out_.empty()) text_ += "\n";
    if (!parts.empty())
      put_text(kIndent, join(parts, "; "), ReportTextHighlightKind::plain, ReportTextHighlightKind::dim);
    if (!meanings_.empty())
      put_text(kIndent, join(meanings_, "; "), ReportTextHighlightKind::plain, ReportTextHighlightKind::dim);
    if (left_out_.empty()) return;
    put_text(kIndent, "no room at " + std::to_string(style_.width) + " columns for " + join(left_out_, ", "),
             ReportTextHighlightKind::plain, ReportTextHighlightKind::dim);
  }

  void put_time() {
    if (const std::string text = time_text(report_); !text.empty())
      text_ += "\n", put_text(" Time of a step: ", text, ReportTextHighlightKind::bold);
  }

  void put_recommendation() {
    const RecommendationText said = verdict(report_);
    if (said.head.empty()) return;
    text_ += "\n";
    put_text(" " + said.head + ": ", said.text,
             said.good ? ReportTextHighlightKind::good : ReportTextHighlightKind::bad);
    for (const BestTrialWithTrainerSettingsOrPythonPlan& alternative : alternatives(report_))
      put_text(" " + alternative.head + ": ", alternative.text,
               alternative.fits ? ReportTextHighlightKind::good : ReportTextHighlightKind::bad);
    if (const std::string gained = gain_text(report_); !gained.empty())
      put_text(" Gained: ", gained, ReportTextHighlightKind::good);
    if (const std::string more = more_memory_text(report_); !more.empty())
      put_text(" More memory: ", more, ReportTextHighlightKind::bold);
    if (const std::string told = predictions_text(report_); !told.empty())
      put_text(" Predicted: ", told, ReportTextHighlightKind::bold);
  }

  void put_saving() {
    const TrialResultRow* row = saving_row(report_);
    if (!row) return;
    text_ += "\n";
    const std::vector<TableColumn> columns = saving_columns(*row, report_.mtbf_s);
    if (!columns.empty()) put_columns(columns);
    for (const std::string& line : saving_failures(*row))
      put_text(kIndent + std::string("✗ "), line, ReportTextHighlightKind::bad);
    std::vector<std::string> terms;
    for (const ReportLabelAndExplanation& each : meanings(columns)) terms.push_back(each.term + ": " + each.text);
    if (!terms.empty())
      put_text(kIndent, join(terms, "; "), ReportTextHighlightKind::plain, ReportTextHighlightKind::dim);
    const std::string advice = saving_advice(*row, report_.mtbf_s);
    if (!advice.empty()) text_ += "\n", put_text(" Saving: ", advice, ReportTextHighlightKind::good);
  }

  void put_findings() {
    const size_t shown = std::min(report_.findings.size(), kFindingsShown);
    if (shown > 0) text_ += "\n";
    for (size_t i = 0; i < shown; ++i)
      put_text(i == 0 ? " Findings: " : "           ", sentence(report_.findings[i]), ReportTextHighlightKind::bold);
  }

  void put_notes() {
    const std::vector<std::string> lines = notes(report_);
    if (!lines.empty()) text_ += "\n";
    for (const std::string& line : lines) put_text(std::string(kIndent) + "note: ", line, ReportTextHighlightKind::dim);
  }

  void put_origin() {
    std::vector<std::string> parts;
    for (const ReportLabelAndExplanation& each : circumstances(report_.origin)) parts.push_back(each.text);
    if (!parts.empty() || !report_.origin.command.empty()) text_ += "\n";
    if (!parts.empty())
      put_text(kIndent, join(parts, " · "), ReportTextHighlightKind::plain, ReportTextHighlightKind::dim);
    if (!report_.origin.command.empty())
      put_text(" $ ", report_.origin.command, ReportTextHighlightKind::dim, ReportTextHighlightKind::dim);
  }

  const Report& report_;
  TerminalCapabilities style_;
  std::vector<const TrialResultRow*> worked_, failed_;
  std::vector<std::string> meanings_;  // of the columns
  std::vector<std::string> left_out_;  // heads of columns dropped for lack of width
  int strategy_width_ = 0;
  std::string text_;
};

}  // namespace

std::string table(const Report& report, TerminalCapabilities style) {
  const Report clean = printable(report);
  return Table(clean, style).print();
}

}  // namespace memtune::report
