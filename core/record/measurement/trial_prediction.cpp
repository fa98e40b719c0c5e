#include "core/record/measurement/trial_prediction.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/json.h"
#include "core/base/median.h"
#include "core/record/measurement/trial_result_row.h"

namespace memtune::result {
namespace {

std::optional<double> error(const TrialResultRow& row, double predicted, double measured) {
  if (!worked(row) || !(measured > 0)) return {};
  return predicted / measured - 1;
}

double time(const nlohmann::json& json, const char* field) { return number_at(json, field, 0, kMaxFigure); }

struct Spread {
  double median = 0, most = 0;
};

Spread spread_of(std::span<const TrialResultRow> rows, std::optional<double> (*error_of)(const TrialResultRow&)) {
  std::vector<double> sizes;
  for (const TrialResultRow& row : rows)
    if (const auto error = error_of(row)) sizes.push_back(std::abs(*error));
  if (sizes.empty()) return {};
  const double most = *std::ranges::max_element(sizes);
  return {median(std::move(sizes)), most};
}

}  // namespace

void to_json(nlohmann::json& json, const TrialPrediction& predicted) {
  json = {{"step_ms", predicted.step_ms}, {"peak_bytes", predicted.peak_bytes}};
  if (predicted.required_bytes > 0) json["required_bytes"] = predicted.required_bytes;
  if (predicted.least_ms > 0) json["least_ms"] = predicted.least_ms;
  if (predicted.host_peak_bytes > 0) json["host_peak_bytes"] = predicted.host_peak_bytes;
  if (predicted.disk_peak_bytes > 0) json["disk_peak_bytes"] = predicted.disk_peak_bytes;
}

void from_json(const nlohmann::json& json, TrialPrediction& predicted) {
  predicted.step_ms = time(json, "step_ms");
  predicted.peak_bytes = whole_at(json, "peak_bytes", 0, kMaxBytes);
  predicted.required_bytes = json.contains("required_bytes") ? whole_at(json, "required_bytes", 0, kMaxBytes) : 0;
  predicted.least_ms = json.contains("least_ms") ? time(json, "least_ms") : 0;
  predicted.host_peak_bytes = json.contains("host_peak_bytes") ? whole_at(json, "host_peak_bytes", 0, kMaxBytes) : 0;
  predicted.disk_peak_bytes = json.contains("disk_peak_bytes") ? whole_at(json, "disk_peak_bytes", 0, kMaxBytes) : 0;
}

void to_json(nlohmann::json& json, const PredictedFrontier& frontier) {
  json = {{"plans", frontier.plans}};
  if (frontier.batch) json["batch"] = *frontier.batch;
  if (frontier.sequence) json["sequence"] = *frontier.sequence;
}

void from_json(const nlohmann::json& json, PredictedFrontier& frontier) {
  json.at("plans").get_to(frontier.plans);
  if (json.contains("batch")) frontier.batch = whole_at(json, "batch", 0);
  if (json.contains("sequence")) frontier.sequence = whole_at(json, "sequence", 0);
}

int64_t required_bytes(const TrialPrediction& predicted) {
  return predicted.required_bytes > 0 ? predicted.required_bytes : predicted.peak_bytes;
}

std::optional<double> step_error(const TrialResultRow& row) {
  if (!row.predicted) return {};
  return error(row, row.predicted->step_ms, row.measurement.step_ms.median);
}

std::optional<double> peak_error(const TrialResultRow& row) {
  if (!row.predicted) return {};
  return error(row, static_cast<double>(row.predicted->peak_bytes), static_cast<double>(peak(row)));
}

PredictionErrorSummary prediction_errors(std::span<const TrialResultRow> rows) {
  const auto predicted = [](const TrialResultRow& row) { return row.predicted && worked(row); };
  const Spread step = spread_of(rows, step_error), peak = spread_of(rows, peak_error);
  return {static_cast<size_t>(std::ranges::count_if(rows, predicted)), step.median, step.most, peak.median, peak.most};
}

}  // namespace memtune::result
