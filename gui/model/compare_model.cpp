#include "gui/model/compare_model.h"

#include <algorithm>
#include <cctype>

#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::gui {
namespace {

using result::Measurement;

constexpr double kGiB = 1 << 30;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool worked(const Measurement& m) { return m.outcome == result::Outcome::ok; }

bool matches(const Trial& trial, const std::vector<std::string>& words) {
  const std::string text = lower(trial.label() + " " + to_string(trial.row().measurement.outcome));
  return std::ranges::all_of(words, [&](const std::string& word) { return text.find(word) != std::string::npos; });
}

std::optional<double> times_reference(const Run& run, const Trial& trial) {
  const report::Row* base = report::reference_row(run.reports[trial.run()], trial.row());
  if (!base || base->measurement.step_ms.median <= 0) return {};
  return trial.row().measurement.step_ms.median / base->measurement.step_ms.median;
}

std::optional<double> if_positive(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

double rate_of(const Measurement& m) { return m.tokens_per_s > 0 ? m.tokens_per_s : m.samples_per_s; }

std::string gradients_text(const Measurement& m) {
  if (!worked(m)) return to_string(m.outcome);
  if (!m.gradients.compared) return "–";
  return m.gradients.equal ? "equal" : "differ";
}

int digits_of(Figure figure) {
  switch (figure) {
    case Figure::times:
    case Figure::peak: return 2;
    case Figure::hidden:
    case Figure::rate: return 0;
    default: return 1;
  }
}

bool has_axes(const Run& run) {
  return std::ranges::any_of(run.trials, [](const Trial& trial) { return trial.row().batch || trial.row().sequence; });
}

Point point_of(const Run& run, size_t index, bool per_sample) {
  const report::Row& row = run.trials[index].row();
  const Measurement& m = row.measurement;
  const double ms = per_sample && m.samples_per_s > 0 ? 1000 / m.samples_per_s : m.step_ms.median;
  return {index, static_cast<double>(m.peak_bytes.allocated) / kGiB, ms, row.pareto, row.recommended};
}

}  // namespace

const std::vector<FigureInfo>& figures() {
  static const std::vector<FigureInfo> all = {
      {Figure::trial, "trial", true},      {Figure::step, "step ms", false},
      {Figure::times, "× ref", false},     {Figure::peak, "peak GiB", false},
      {Figure::hidden, "hidden %", false}, {Figure::exposed, "exposed ms", false},
      {Figure::rate, "per second", false}, {Figure::gradients, "gradients", true}};
  return all;
}

std::optional<double> figure_value(const Run& run, size_t index, Figure figure) {
  const Trial& trial = run.trials[index];
  const Measurement& m = trial.row().measurement;
  const bool moves = m.transfer.out_bytes + m.transfer.in_bytes > 0;
  if (!worked(m)) return {};
  switch (figure) {
    case Figure::step: return if_positive(m.step_ms.median);
    case Figure::times: return times_reference(run, trial);
    case Figure::peak: return if_positive(static_cast<double>(m.peak_bytes.allocated) / kGiB);
    case Figure::hidden: return moves ? std::optional(100 * m.transfer.hidden) : std::nullopt;
    case Figure::exposed: return moves ? std::optional(m.transfer.exposed_ms) : std::nullopt;
    case Figure::rate: return if_positive(rate_of(m));
    default: return {};
  }
}

std::string figure_text(const Run& run, size_t index, Figure figure) {
  const Trial& trial = run.trials[index];
  if (figure == Figure::trial) return trial.label();
  if (figure == Figure::gradients) return gradients_text(trial.row().measurement);
  const std::optional<double> value = figure_value(run, index, figure);
  if (!value) return "–";
  return fixed(*value, figure == Figure::rate && *value < 100 ? 2 : digits_of(figure));
}

std::vector<size_t> compare_rows(const Run& run, const std::string& filter, Figure by, bool ascending) {
  std::vector<std::string> words;
  for (const std::string& word : split(lower(filter), ' ')) words.push_back(word);
  std::vector<size_t> rows;
  for (size_t i = 0; i < run.trials.size(); ++i) {
    if (matches(run.trials[i], words)) rows.push_back(i);
  }
  const bool in_words = by == Figure::trial || by == Figure::gradients;
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    if (in_words) {
      const std::string text_a = figure_text(run, a, by), text_b = figure_text(run, b, by);
      return ascending ? text_a < text_b : text_b < text_a;
    }
    const auto value_a = figure_value(run, a, by), value_b = figure_value(run, b, by);
    if (!value_a || !value_b) return value_a.has_value() && !value_b;
    return ascending ? *value_a < *value_b : *value_b < *value_a;
  });
  return rows;
}

Scatter make_scatter(const Run& run) {
  Scatter scatter;
  const bool per_sample = has_axes(run);
  if (per_sample) scatter.time_label = "ms a sample";
  scatter.fronts.resize(run.reports.size());
  for (size_t i = 0; i < run.trials.size(); ++i) {
    if (!figure_value(run, i, Figure::step) || !figure_value(run, i, Figure::peak)) continue;
    const Point point = point_of(run, i, per_sample);
    scatter.points.push_back(point);
    if (point.pareto && !per_sample) scatter.fronts[run.trials[i].run()].push_back(point);
  }
  for (std::vector<Point>& front : scatter.fronts) std::ranges::sort(front, {}, &Point::peak_gib);
  return scatter;
}

}  // namespace memtune::gui
