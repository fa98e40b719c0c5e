#include "core/answer/report/text/columns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/answer/report/words.h"
#include "core/answer/result/effect.h"
#include "core/answer/result/metrics.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

using result::kNothing;
using result::MetricColumnFormatter;
using result::TrialPrediction;
using result::TrialResultRow;

class Columns {
 public:
  Columns(const Report& report, std::span<const TrialResultRow* const> rows)
      : report_(report), rows_(rows), ranking_(rows) {}

  std::vector<TableColumn> make() {
    add(" ", TableColumn::kAlways, true, [](const TrialResultRow& row) {
      return row.recommended ? TableCell{"*", ReportTextHighlightKind::good}
             : row.pareto    ? TableCell{"•", ReportTextHighlightKind::bold}
                             : TableCell{""};
    });
    add("strategy", TableColumn::kAlways, true, [](const TrialResultRow& row) {
      const ReportTextHighlightKind paint =
          has_ineffective_part(row.measurement) ? ReportTextHighlightKind::dim : ReportTextHighlightKind::plain;
      return TableCell{display_name(row), row.recommended ? ReportTextHighlightKind::good : paint};
    });
    auto axis = [](std::optional<int64_t> value) { return TableCell{value ? std::to_string(*value) : kNothing}; };
    add("batch", TableColumn::kAlways, false, [&](const TrialResultRow& row) {
      TableCell cell = axis(row.batch);
      if (row.passes > 1) cell.text += " × " + std::to_string(row.passes);
      return cell;
    });
    add("seq", TableColumn::kAlways, false, [&](const TrialResultRow& row) { return axis(row.sequence); });
    add_time();
    add_memory();
    add_figure(result::metric("hidden"), 4, "share of copy time that overlapped compute");
    add_figure(result::metric("exposed_ms"), 3, "copy time a step that did not overlap compute");
    add_figure(result::metric("exposed_communication_ms"), 3,
               "time a step that a rank waited for collectives, at most");
    add_figure(result::rate_metric(rows_), 2);
    add_figure(result::metric("optimizer_ms"), 1);
    if (is_of_commands(report_))
      add_losses();
    else
      add_gradients();
    return std::move(columns_);
  }

 private:
  void add_gradients() {
    add(
        "gradients", 6, true, [&](const TrialResultRow& row) { return gradients(row); },
        "compared with those of " + report_.reference + " before anything was timed; ≈ the largest difference, if " +
            report_.reference + "'s own runs differ as much");
  }

  void add_losses() {
    add(
        "losses", 6, true, [&](const TrialResultRow& row) { return losses(row); },
        "of the first steps, compared with those of " + report_.reference +
            "; ≈ differences within rounding and the noise between its own runs");
  }

  template <typename Make>
  void add(std::string head, int importance, bool words, Make make, std::string meaning = "") {
    TableColumn column{std::move(head), importance, words, {}, columns_.size() < 2 ? 1 : 2, std::move(meaning)};
    for (const TrialResultRow* row : rows_) column.cells.push_back(make(*row));
    auto known = [](const TableCell& cell) { return cell.text != kNothing; };
    if (std::any_of(column.cells.begin(), column.cells.end(), known)) columns_.push_back(std::move(column));
  }

  void add_figure(const result::MetricDefinition& metric, int importance, const char* meaning = "") {
    const MetricColumnFormatter column(metric, rows_);
    add(
        column.head(), importance, false,
        [&](const TrialResultRow& row) { return TableCell{column.text(row.measurement)}; }, meaning);
  }

  void add_time() {
    const MetricColumnFormatter step(result::metric("step_ms"), rows_);
    auto half_interval = [&](const TrialResultRow& row) {
      return step.text((row.measurement.step_ms.high - row.measurement.step_ms.low) / 2);
    };
    int width = 0;
    for (const TrialResultRow* row : rows_) width = std::max(width, display_width(half_interval(*row)));
    add(
        step.head(), TableColumn::kAlways, false,
        [&](const TrialResultRow& row) {
          return TableCell{step.text(step.value(row.measurement)) + " ± " + pad_left(half_interval(row), width),
                           row.measurement.noisy ? ReportTextHighlightKind::doubtful : ReportTextHighlightKind::plain};
        },
        "median ± half of its 95 % interval");
    add_time_for_work();
    add(
        "× " + reference_label(report_), 7, false, [&](const TrialResultRow& row) { return ratio(row); },
        (is_of_commands(report_) && ranking_.work() != result::WorkUnit::step ? "time for the same work over "
                                                                              : "step time over ") +
            report_.reference + "'s" +
            (std::ranges::any_of(rows_, &has_interval) ? "; ± half of the 95 % interval over the rounds" : ""));
    add_predicted(
        "predicted ms", 5, step, [](const TrialPrediction& predicted) { return predicted.step_ms; }, result::step_error,
        "step time predicted before the trial ran, and its error against the measured one");
  }

  template <typename Get>
  void add_predicted(const std::string& head, int importance, const MetricColumnFormatter& column, Get get,
                     std::optional<double> (*error_of)(const TrialResultRow&), const std::string& meaning) {
    const auto error = [&](const TrialResultRow& row) {
      const auto share = error_of(row);
      return share ? signed_percent(*share) : "";
    };
    int width = 0;
    for (const TrialResultRow* row : rows_) width = std::max(width, display_width(error(*row)));
    add(
        head, importance, false,
        [&](const TrialResultRow& row) {
          if (!row.predicted) return TableCell{kNothing};
          const double value = column.in_unit(static_cast<double>(get(*row.predicted)));
          return TableCell{column.text(value) + " " + pad_left(error(row), width)};
        },
        meaning);
  }

  // Adds the sort key of the rows, if that is not the step time.
  void add_time_for_work() {
    if (ranking_.work() == result::WorkUnit::step) return;
    double least = std::numeric_limits<double>::infinity();
    for (const TrialResultRow* row : rows_) least = std::min(least, ranking_.time(*row));
    add(
        ranking_.title(), TableColumn::kAlways, false,
        [&](const TrialResultRow& row) { return TableCell{fixed(ranking_.time(row), digits_for(least))}; },
        "time for the same work, which rows are sorted by");
  }

  static bool has_interval(const TrialResultRow* row) { return row->measurement.rounds.size() > 1; }

  TableCell ratio(const TrialResultRow& row) const {
    const TrialResultRow* base = reference_row(report_, row);
    if (!base || base->measurement.step_ms.median <= 0) return {kNothing};
    const result::StepTimeRatioEstimate ratio = ranking_.ratio(row, *base);
    const double half = (ratio.high - ratio.low) / 2;
    if (!has_interval(&row) || base == &row) return {fixed(ratio.value, 2)};
    return {fixed(ratio.value, 2) + " ± " + (half < 1 ? fixed(half, 2) : ">1")};
  }

  void add_memory() {
    const MetricColumnFormatter peak(result::metric("peak_allocated_bytes"), rows_);
    const bool on_device =
        std::ranges::any_of(rows_, [](const TrialResultRow* row) { return row->measurement.peak_bytes.device > 0; });
    add(
        on_device ? std::string("allocated ") + peak.byte_unit() : peak.head(), TableColumn::kAlways, false,
        [&](const TrialResultRow& row) { return TableCell{peak.text(peak.value(row.measurement))}; },
        has_resident_peaks(report_)
            ? "the most resident memory of a process"
            : std::string(on_device ? "peak allocated: " : "") + "the most that tensors held at once");
    if (on_device)
      add(
          std::string("device ") + peak.byte_unit(), TableColumn::kAlways, false,
          [&](const TrialResultRow& row) {
            const auto bytes = static_cast<double>(row.measurement.peak_bytes.device);
            return TableCell{bytes > 0 ? peak.text(peak.in_unit(bytes)) : kNothing};
          },
          "on the device: with the allocator's free memory, context and libraries; budgets limit it");
    add(
        std::string("−") + peak.byte_unit(), 5, false,
        [&](const TrialResultRow& row) {
          const TrialResultRow* base = reference_row(report_, row);
          if (!base || base == &row) return TableCell{kNothing};
          const double saved = peak.value(base->measurement) - peak.value(row.measurement);
          const std::string size = peak.text(std::abs(saved));
          return TableCell{(saved < 0 && size != "0.00" ? "+" : "") + size};
        },
        "below " + report_.reference + "'s peak");
    add_predicted(
        std::string("predicted ") + peak.byte_unit(), 4, peak,
        [](const TrialPrediction& predicted) { return predicted.peak_bytes; }, result::peak_error,
        "peak predicted before the trial ran, and its error");
  }

  TableCell gradients(const TrialResultRow& row) const {
    const result::GradientComparison& gradients = row.measurement.gradients;
    // A single trial is not a reference: nothing was compared with it.
    const auto compared = [](const TrialResultRow* each) { return each->measurement.gradients.compared; };
    if (row.measurement.strategy == report_.reference)
      return {std::ranges::any_of(rows_, compared) ? "reference" : "not compared", ReportTextHighlightKind::dim};
    if (!gradients.compared) return {kNothing};
    if (gradients.equal) return {"equal"};
    char text[48];
    std::snprintf(text, sizeof text, "≈ %.1e", gradients.max_abs_difference);
    return {text, ReportTextHighlightKind::doubtful};
  }

  TableCell losses(const TrialResultRow& row) const {
    const result::LossComparison& losses = row.measurement.losses;
    const auto compared = [](const TrialResultRow* each) { return each->measurement.losses.compared; };
    if (row.measurement.strategy == report_.reference)
      return {std::ranges::any_of(rows_, compared) ? "reference" : kNothing, ReportTextHighlightKind::dim};
    if (!losses.compared) return {kNothing};
    if (losses.changed) return {"changed", ReportTextHighlightKind::bad};
    return {losses.loss == losses.expected ? "equal" : "≈"};
  }

  const Report& report_;
  std::span<const TrialResultRow* const> rows_;
  result::WorkNormalizedTrialComparator ranking_;
  std::vector<TableColumn> columns_;
};

template <typename CellOf>
std::string line_text(std::span<const TableColumn> columns, bool color, CellOf cell_of) {
  std::string line;
  for (const TableColumn& column : columns) {
    const TableCell cell = cell_of(column);
    const std::string blanks(static_cast<size_t>(column.width() - display_width(cell.text)), ' ');
    const std::string text = painted(cell.text, cell.paint, color);
    line += std::string(static_cast<size_t>(column.gap), ' ') + (column.words ? text + blanks : blanks + text);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

void add_row(std::vector<TableColumn>& columns, std::vector<std::string> cells) {
  cells.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back({std::move(cells[i])});
}

std::string heads_text(std::span<const TableColumn> columns, bool color) {
  return line_text(columns, color, [](const TableColumn& column) {
    return TableCell{column.head, ReportTextHighlightKind::bold};
  });
}

std::string row_text(std::span<const TableColumn> columns, size_t row, bool color) {
  return line_text(columns, color, [row](const TableColumn& column) { return column.cells[row]; });
}

int TableColumn::width() const {
  int width = display_width(head);
  for (const TableCell& cell : cells) width = std::max(width, display_width(cell.text));
  return width;
}

std::vector<TableColumn> make_columns(const Report& report, std::span<const result::TrialResultRow* const> rows) {
  return Columns(report, rows).make();
}

std::string reference_label(const Report& report) {
  return display_width(report.reference) <= 8 ? report.reference : "ref";
}

std::vector<std::string> drop_to_fit(std::vector<TableColumn>& columns, int width) {
  std::vector<std::string> heads;
  auto less = [](const TableColumn& a, const TableColumn& b) { return a.importance < b.importance; };
  while (line_width(columns) > width) {
    auto least = std::min_element(columns.begin(), columns.end(), less);
    if (least == columns.end() || least->importance == TableColumn::kAlways) break;
    heads.push_back(least->head);
    columns.erase(least);
  }
  return heads;
}

int line_width(const std::vector<TableColumn>& columns) {
  int width = 0;
  for (const TableColumn& column : columns) width += column.gap + column.width();
  return width;
}

}  // namespace memtune::report
