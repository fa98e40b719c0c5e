#include "core/report/table.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/report/columns.h"
#include "core/report/layout.h"

namespace memtune::report {
namespace {

using trace::Measurement;

constexpr const char* kIndent = " ";
constexpr size_t kFindingsShown = 3;
constexpr int kProseWidth = 110;  // longer lines are hard to read, however wide the terminal

class Table {
 public:
  Table(const Report& report, TableStyle style) : report_(report), style_(style) {
    for (const Row* row : ranked(report)) {
      (row->measurement.outcome == trace::Outcome::ok ? worked_ : failed_).push_back(row);
      strategy_width_ = std::max(strategy_width_, display_width(row->measurement.strategy));
    }
  }

  std::string print() {
    put_title();
    if (report_.rows.empty()) text_ += std::string(kIndent) + "no trials\n";
    if (!worked_.empty()) put_worked();
    for (const Row* row : failed_) put_failed(*row);
    put_legend();
    put_recommendation();
    put_findings();
    put_notes();
    return std::move(text_);
  }

 private:
  std::string painted(const std::string& text, Paint paint) const {
    constexpr const char* kCodes[] = {"", "1", "2", "1;32", "31", "33"};  // in the order of Paint
    if (!style_.color || paint == Paint::plain || text.empty()) return text;
    return std::string("\x1b[") + kCodes[static_cast<int>(paint)] + "m" + text + "\x1b[0m";
  }

  // Prose behind `lead`, its further lines indented as far.
  void put_text(const std::string& lead, const std::string& text, Paint lead_paint, Paint paint = Paint::plain) {
    int lead_width = display_width(lead);
    std::string before = painted(lead, lead_paint);
    for (const std::string& line : wrap(text, std::max(24, std::min(style_.width, kProseWidth) - lead_width))) {
      text_ += before + painted(line, paint) + "\n";
      before = std::string(lead_width, ' ');
    }
  }

  void put_title() {
    std::string title = report_.model + (report_.model.empty() || report_.device.empty() ? "" : " · ") + report_.device;
    if (report_.emulated) title += ", playing the device (emulation)";
    if (!title.empty()) put_text(kIndent, title, Paint::plain, Paint::bold);
    if (!report_.settings.empty()) put_text(kIndent, report_.settings, Paint::plain, Paint::dim);
    if (!text_.empty()) text_ += "\n";
  }

  void put_worked() {
    std::vector<Column> columns = make_columns(report_, worked_);
    columns[1].head = pad_right("strategy", strategy_width_);  // as wide as in the lines of failed trials
    drop_to_fit(columns, style_.width);
    put_line(columns, [](const Column& column) { return Cell{column.head, Paint::bold}; });
    put_rule(line_width(columns) - 1);
    for (size_t i = 0; i < worked_.size(); ++i)
      put_line(columns, [i](const Column& column) { return column.cells[i]; });
    if (!failed_.empty()) put_rule(line_width(columns) - 1);
  }

  template <typename CellOf>
  void put_line(const std::vector<Column>& columns, CellOf cell_of) {
    std::string line;
    for (const Column& column : columns) {
      Cell cell = cell_of(column);
      std::string blanks(column.width() - display_width(cell.text), ' ');
      std::string text = painted(cell.text, cell.paint);
      line += std::string(column.gap, ' ') + (column.words ? text + blanks : blanks + text);
    }
    text_ += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }

  void put_rule(int width) {
    std::string rule;
    for (int i = 0; i < width; ++i) rule += "─";
    text_ += kIndent + painted(rule, Paint::dim) + "\n";
  }

  static std::string label(std::string strategy, std::optional<int64_t> batch, std::optional<int64_t> sequence) {
    if (batch) strategy += ", batch " + std::to_string(*batch);
    if (sequence) strategy += ", seq " + std::to_string(*sequence);
    return strategy;
  }
  static std::string label(const Row& row) { return label(row.measurement.strategy, row.batch, row.sequence); }

  void put_failed(const Row& row) {
    const Measurement& m = row.measurement;
    std::string text = label(to_string(m.outcome), row.batch, row.sequence);
    if (!m.reason.empty()) text += ": " + m.reason;
    put_text(kIndent + ("✗ " + pad_right(m.strategy, strategy_width_)) + "  ", text, Paint::bad);
  }

  void put_legend() {
    auto any = [&](bool Row::*mark) {
      return std::any_of(worked_.begin(), worked_.end(), [&](const Row* row) { return row->*mark; });
    };
    std::vector<std::string> parts;
    if (any(&Row::recommended)) parts.push_back("* recommended");
    if (any(&Row::pareto)) parts.push_back("• no other is both faster and smaller");
    if (!worked_.empty() && reference_label(report_) != report_.reference) parts.push_back("ref: " + report_.reference);
    if (parts.empty()) return;
    text_ += "\n";
    put_text(kIndent, join(parts, "; "), Paint::plain, Paint::dim);
  }

  void put_recommendation() {
    const Recommendation& advice = report_.recommendation;
    if (advice.strategy.empty() && advice.reason.empty()) return;
    const std::string name = label(advice.strategy, advice.batch, advice.sequence);
    text_ += "\n";
    if (advice.fits && !advice.strategy.empty()) {
      put_text(" Recommended: ", name + (advice.reason.empty() ? "" : ": " + advice.reason), Paint::good);
    } else {
      put_text(" No recommendation: ", advice.reason, Paint::bad);
    }
  }

  void put_findings() {
    const size_t shown = std::min(report_.findings.size(), kFindingsShown);
    if (shown > 0) text_ += "\n";
    for (size_t i = 0; i < shown; ++i)
      put_text(i == 0 ? " Findings: " : "           ", sentence(report_.findings[i]), Paint::bold);
  }

  // Names the trials, unless it is every one of them, as on a busy machine.
  std::string noisy_times() const {
    double most = 0;
    std::vector<std::string> names;
    for (const Row* row : worked_) {
      if (!row->measurement.noisy) continue;
      most = std::max(most, spread(row->measurement.step_ms));
      names.push_back(label(*row));
    }
    if (names.empty()) return "";
    const std::string whose = names.size() == worked_.size() ? "" : " of " + join(names, "; ");
    return "steps" + whose + " vary by " + (names.size() > 1 ? "up to " : "") + fixed(100 * most, 0) +
           " %: times that differ by less may be the same";
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes = report_.notes;
    if (std::string noisy = noisy_times(); !noisy.empty()) notes.push_back(std::move(noisy));
    const auto nearly_equal = [](const Row* row) {
      return row->measurement.gradients.compared && !row->measurement.gradients.equal;
    };
    if (std::any_of(worked_.begin(), worked_.end(), nearly_equal)) {
      notes.push_back("the gradients of " + report_.reference +
                      " differ from run to run; those marked ≈ differ from them by no more than that");
    }
    if (report_.emulated) {
      notes.push_back(
          "an emulation: the processor plays the device. Good for comparing memory and for checking gradients; "
          "times and overlap are the processor's and say nothing about a GPU");
    }
    return notes;
  }

  void put_notes() {
    std::vector<std::string> lines = notes();
    if (!lines.empty()) text_ += "\n";
    for (const std::string& line : lines) put_text(std::string(kIndent) + "note: ", line, Paint::dim);
  }

  const Report& report_;
  TableStyle style_;
  std::vector<const Row*> worked_, failed_;
  int strategy_width_ = 0;
  std::string text_;
};

}  // namespace

std::string table(const Report& report, TableStyle style) { return Table(report, style).print(); }

}  // namespace memtune::report
