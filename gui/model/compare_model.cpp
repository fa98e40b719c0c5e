#include "gui/model/compare_model.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/answer/result/metrics.h"
#include "core/answer/result/pareto.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::gui {
namespace {

using result::TrialMeasurement;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool matches(const Trial& trial, const std::vector<std::string>& words) {
  const std::string text = lower(trial.label() + " " + to_string(trial.row().measurement.outcome));
  return std::ranges::all_of(words, [&](const std::string& word) { return text.find(word) != std::string::npos; });
}

std::optional<double> times_reference(const Run& run, const Trial& trial) {
  const result::TrialResultRow* base = report::reference_row(run.reports[trial.run()], trial.row());
  if (!base || base->measurement.step_ms.median <= 0) return {};
  return ratio_of(trial.row().measurement, base->measurement).value;
}

std::string gradients_text(const result::TrialResultRow& row, const std::string& reference) {
  const TrialMeasurement& m = row.measurement;
  if (!worked(row)) return to_string(m.outcome);
  if (m.strategy == reference) return "reference";
  if (m.losses.compared) return m.losses.changed ? "losses changed" : "losses as before";
  if (!m.gradients.compared) return result::kNothing;
  return m.gradients.equal ? "equal" : "differ";
}

// All trials that worked, from any sweep: their figures share columns.
std::vector<const result::TrialResultRow*> rows_that_worked(const Run& run) {
  std::vector<const result::TrialResultRow*> rows;
  for (const Trial& trial : run.trials) {
    if (worked(trial.row())) rows.push_back(&trial.row());
  }
  return rows;
}

// Null if the column does not show a measured figure.
const result::MetricDefinition* figure_of(CompareColumn column,
                                          const std::vector<const result::TrialResultRow*>& rows) {
  switch (column) {
    case CompareColumn::step: return &result::metric("step_ms");
    case CompareColumn::peak: return &result::metric("peak_allocated_bytes");
    case CompareColumn::hidden: return &result::metric("hidden");
    case CompareColumn::exposed: return &result::metric("exposed_ms");
    case CompareColumn::rate: return &result::rate_metric(rows);
    default: return nullptr;
  }
}

const char* meaning(CompareColumn column) {
  switch (column) {
    case CompareColumn::step: return "median of the measured steps";
    case CompareColumn::times: return "step time over that of the reference, usually none";
    case CompareColumn::peak: return "the most that tensors held at once";
    case CompareColumn::hidden: return "share of copy time that overlapped compute";
    case CompareColumn::exposed: return "copy time a step that did not overlap compute";
    case CompareColumn::gradients: return "compared with those of the reference before anything was timed";
    default: return "";
  }
}

}  // namespace

std::vector<ColumnInfo> columns(const Run& run) {
  const std::vector<const result::TrialResultRow*> rows = rows_that_worked(run);
  std::vector<ColumnInfo> all = {{CompareColumn::trial, "trial", true, ""}};
  for (const CompareColumn column : {CompareColumn::step, CompareColumn::times, CompareColumn::peak,
                                     CompareColumn::hidden, CompareColumn::exposed, CompareColumn::rate}) {
    const result::MetricDefinition* metric = figure_of(column, rows);
    all.push_back(
        {column, metric ? result::MetricColumnFormatter(*metric, rows).head() : "× ref", false, meaning(column)});
  }
  all.push_back({CompareColumn::gradients, "gradients", true, meaning(CompareColumn::gradients)});
  return all;
}

std::optional<double> cell_value(const Run& run, size_t index, CompareColumn column) {
  const Trial& trial = run.trials[index];
  if (!worked(trial.row())) return {};
  if (column == CompareColumn::times) return times_reference(run, trial);
  const result::MetricDefinition* metric = figure_of(column, rows_that_worked(run));
  const TrialMeasurement& m = trial.row().measurement;
  return metric && metric->known(m) ? std::optional(metric->get(m)) : std::nullopt;
}

std::string cell_text(const Run& run, size_t index, CompareColumn column) {
  const Trial& trial = run.trials[index];
  if (column == CompareColumn::trial) return trial.label();
  if (column == CompareColumn::gradients) return gradients_text(trial.row(), run.reports[trial.run()].reference);
  const std::optional<double> value = cell_value(run, index, column);
  if (!value) return result::kNothing;
  if (column == CompareColumn::times) return fixed(*value, 2);
  const std::vector<const result::TrialResultRow*> rows = rows_that_worked(run);
  return result::MetricColumnFormatter(*figure_of(column, rows), rows).text(trial.row().measurement);
}

std::vector<size_t> compare_rows(const Run& run, const std::string& filter, CompareColumn by, bool ascending) {
  std::vector<std::string> words;
  for (const std::string& word : split(lower(filter), ' ')) words.push_back(word);
  std::vector<size_t> rows;
  for (size_t i = 0; i < run.trials.size(); ++i) {
    if (matches(run.trials[i], words)) rows.push_back(i);
  }
  const bool in_words = by == CompareColumn::trial || by == CompareColumn::gradients;
  std::vector<std::optional<double>> values(run.trials.size());
  for (const size_t row : rows) values[row] = cell_value(run, row, by);
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    if (in_words) {
      const std::string text_a = cell_text(run, a, by), text_b = cell_text(run, b, by);
      return ascending ? text_a < text_b : text_b < text_a;
    }
    const auto &value_a = values[a], &value_b = values[b];
    if (!value_a || !value_b) return value_a.has_value() && !value_b;
    return ascending ? *value_a < *value_b : *value_b < *value_a;
  });
  return rows;
}

namespace {

void put_budgets(const Run& run, Scatter& scatter) {
  if (scatter.points.empty()) return;
  const double least = std::ranges::min(scatter.points, {}, &ParetoDot::peak).peak;
  const double most = std::ranges::max(scatter.points, {}, &ParetoDot::peak).peak;
  for (const report::Report& report : run.reports)
    if (const double budget = static_cast<double>(report.budget_bytes) / scatter.unit.bytes;
        result::budget_is_near(budget, least, most))
      scatter.budgets.push_back(budget);
}

}  // namespace

Scatter make_scatter(const Run& run) {
  const std::vector<const result::TrialResultRow*> rows = rows_that_worked(run);
  const result::WorkNormalizedTrialComparator ranking(rows);
  Scatter scatter;
  scatter.time_label = ranking.title();
  scatter.time_unit = ranking.unit();
  int64_t largest = 0;
  for (const result::TrialResultRow* row : rows) largest = std::max(largest, peak(*row));
  scatter.unit = unit_for(largest);
  std::map<const result::TrialResultRow*, ParetoDot> points;
  std::vector<std::vector<const result::TrialResultRow*>> by_run(run.reports.size());
  for (size_t i = 0; i < run.trials.size(); ++i) {
    const result::TrialResultRow& row = run.trials[i].row();
    if (!usable(row.measurement) || peak(row) <= 0) continue;
    ParetoDot dot = {i,
                     static_cast<double>(peak(row)) / scatter.unit.bytes,
                     ranking.time(row),
                     row.pareto,
                     row.recommended,
                     is_planned(row)};
    if (const auto step = step_error(row), peak = peak_error(row); step && peak)
      dot.predicted_peak = dot.peak * (1 + *peak), dot.predicted_time = dot.time * (1 + *step);
    points[&row] = dot;
    scatter.points.push_back(points[&row]);
    by_run[run.trials[i].run()].push_back(&row);
  }
  for (size_t i = 0; i < by_run.size(); ++i) {
    for (const auto& front : result::fronts_of(by_run[i])) {
      scatter.fronts.push_back({i, {}});
      for (const result::TrialResultRow* row : front) scatter.fronts.back().points.push_back(points[row]);
    }
  }
  double slowest = 0;
  for (const ParetoDot& dot : scatter.points) slowest = std::max(slowest, dot.time);
  put_budgets(run, scatter);
  for (size_t i = 0; i < run.reports.size(); ++i) {
    for (const result::PredictedFrontier& frontier : run.reports[i].frontiers) {
      scatter.frontiers.push_back({i, {}});
      for (const result::ParetoPlotPoint& point : placed(frontier, by_run[i], ranking, scatter.unit, slowest))
        scatter.frontiers.back().points.push_back({.peak = point.peak, .time = point.time});
    }
  }
  if (!scatter.points.empty() && ranking.work() != result::WorkUnit::step)
    scatter.time_digits = digits_for(std::ranges::min(scatter.points, {}, &ParetoDot::time).time);
  return scatter;
}

}  // namespace memtune::gui
