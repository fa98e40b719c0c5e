#include "core/answer/report/text/diff_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/answer/report/text/columns.h"
#include "core/answer/report/words.h"
#include "core/answer/result/metrics.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/utf8.h"

namespace memtune::report {
namespace {

using result::kNothing;
using result::SweepDiffRow;
using result::TrialMeasurement;
using result::TrialResultRow;

// " +2.1 %"; "" if A is 0.
std::string percent(double a, double b) { return a <= 0 ? "" : " " + signed_percent(b / a - 1); }

std::string arrow(double a, double b, int digits) { return fixed(a, digits) + " → " + fixed(b, digits); }

std::string passes_text(int64_t passes) { return std::to_string(passes) + (passes == 1 ? " pass" : " passes"); }

// Other differences of two trials that worked: steps, loss, gradients.
std::string differences(const TrialResultRow& row_a, const TrialResultRow& row_b) {
  const TrialMeasurement &a = row_a.measurement, &b = row_b.measurement;
  std::vector<std::string> parts;
  if (row_a.passes != row_b.passes)
    parts.push_back("steps of " + passes_text(row_a.passes) + " → " + passes_text(row_b.passes));
  if (!a.loss.empty() && !b.loss.empty() && a.loss.front() != b.loss.front())
    parts.push_back("loss " + arrow(a.loss.front(), b.loss.front(), 6));
  const auto verdict = [](const TrialMeasurement& m) {
    return !m.gradients.compared ? "not compared" : m.gradients.equal ? "equal" : "differ";
  };
  if (verdict(a) != std::string(verdict(b)))
    parts.push_back(std::string("gradients ") + verdict(a) + " → " + verdict(b));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// Both sweeps share one unit and the number of digits that the smallest figure needs.
class DiffCells {
 public:
  explicit DiffCells(const std::vector<const TrialResultRow*>& rows)
      : step_(result::metric("step_ms"), rows), peak_(result::metric("peak_allocated_bytes"), rows) {}

  std::vector<std::string> heads() const { return {"strategy", step_.head(), peak_.head(), "hidden %", ""}; }

  std::vector<std::string> line(const SweepDiffRow& row) const {
    const TrialMeasurement &a = row.a->measurement, &b = row.b->measurement;
    const bool moves = a.transfer.out_bytes + b.transfer.out_bytes > 0;
    return {label(*row.a), change(step_, a, b) + (may_be_equal(a.step_ms, b.step_ms) ? " ~" : ""), change(peak_, a, b),
            moves ? arrow(100 * a.transfer.hidden, 100 * b.transfer.hidden, 0) : kNothing, differences(*row.a, *row.b)};
  }

 private:
  static std::string change(const result::MetricColumnFormatter& metric, const TrialMeasurement& a,
                            const TrialMeasurement& b) {
    return metric.text(a) + " → " + metric.text(b) + percent(metric.value(a), metric.value(b));
  }

  result::MetricColumnFormatter step_, peak_;
};

std::vector<const TrialResultRow*> rows_of(const std::vector<SweepDiffRow>& diff) {
  std::vector<const TrialResultRow*> rows;
  for (const SweepDiffRow& row : diff) {
    if (row.worked_in_both()) rows.insert(rows.end(), {row.a, row.b});
  }
  return rows;
}

// Why two trials have no figures to compare.
std::string instead(const SweepDiffRow& row) {
  if (!row.b) return "only in A";
  if (!row.a) return "only in B";
  const auto ended = [](const TrialResultRow& side) {
    const TrialMeasurement& m = side.measurement;
    return to_string(m.outcome) +
           (m.reason.empty() || m.outcome == result::TrialOutcome::ok ? "" : ": " + printable_line(m.reason));
  };
  return "A " + ended(*row.a) + "; B " + ended(*row.b);
}

nlohmann::json side(const TrialResultRow* row) {
  if (!row) return nullptr;
  nlohmann::json json = row->measurement;
  if (row->predicted) json["predicted"] = *row->predicted;
  return json;
}

}  // namespace

std::string diff_table(const std::vector<result::SweepDiffRow>& rows) {
  const DiffCells cells(rows_of(rows));
  std::vector<TableColumn> columns;
  for (std::string& head : cells.heads()) columns.push_back({std::move(head), 0, true, {}, columns.empty() ? 1 : 2});
  for (const SweepDiffRow& row : rows)
    add_row(columns, row.worked_in_both() ? cells.line(row) : std::vector{label(row.any())});
  // Left out if no trial copied anything.
  const auto nothing = [](const TableCell& cell) { return cell.text.empty() || cell.text == kNothing; };
  constexpr int kHidden = 3;
  if (std::ranges::all_of(columns[kHidden].cells, nothing)) columns.erase(columns.begin() + kHidden);
  std::string text = heads_text(columns);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].worked_in_both())
      text += row_text(columns, i);
    else
      text += pad_right(" " + columns[0].cells[i].text, columns[0].width() + 3) + instead(rows[i]) + "\n";
  }
  const auto unclear = [](const SweepDiffRow& row) {
    return row.worked_in_both() && may_be_equal(row.a->measurement.step_ms, row.b->measurement.step_ms);
  };
  if (std::ranges::any_of(rows, unclear)) text += "\n ~ within the noise of both\n";
  return text;
}

std::string diff_json(const std::vector<result::SweepDiffRow>& rows) {
  nlohmann::json trials = nlohmann::json::array();
  for (const SweepDiffRow& row : rows) {
    const TrialResultRow& any = row.any();
    nlohmann::json trial = {{"strategy", any.measurement.strategy},
                            {"in", row.in_both() ? "both"
                                   : row.a       ? "a"
                                                 : "b"},
                            {"broke", row.broke()},
                            {"a", side(row.a)},
                            {"b", side(row.b)}};
    if (any.batch) trial["batch"] = *any.batch;
    if (any.sequence) trial["sequence"] = *any.sequence;
    if (row.worked_in_both()) {
      const TrialMeasurement &a = row.a->measurement, &b = row.b->measurement;
      trial["step_ms"] = b.step_ms.median - a.step_ms.median;
      trial["step_ms_may_be_equal"] = may_be_equal(a.step_ms, b.step_ms);
      trial["peak_bytes"] = b.peak_bytes.allocated - a.peak_bytes.allocated;
      trial["hidden"] = b.transfer.hidden - a.transfer.hidden;
      if (row.a->passes != row.b->passes) trial["passes"] = {{"a", row.a->passes}, {"b", row.b->passes}};
      trial["exposed_ms"] = b.transfer.exposed_ms - a.transfer.exposed_ms;
    }
    trials.push_back(std::move(trial));
  }
  return print_json({{"trials", trials}}, 2) + "\n";
}

}  // namespace memtune::report
