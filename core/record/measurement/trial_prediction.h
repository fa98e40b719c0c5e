// Predictions made before a trial ran, and their errors: predicted / measured - 1, above 0 if too much was predicted.
// Pure functions over rows; errors exist for trials that worked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

namespace memtune::result {

struct TrialResultRow;

struct TrialPrediction {
  double step_ms = 0;
  int64_t peak_bytes = 0;  // peak allocated
  double least_ms = 0;     // lower bound of the simulated step within the budget; 0: not known, or no budget
  int64_t host_peak_bytes = 0, disk_peak_bytes = 0;  // peaks of offloaded bytes
  int64_t required_bytes = 0;                        // that the device has to hold; 0: as much as the peak
  bool operator==(const TrialPrediction&) const = default;
};

// Predictions of the best plans for many budgets at one setting, smallest peak first. Most plans were never run.
struct PredictedFrontier {
  std::optional<int64_t> batch, sequence;  // as in Row
  std::vector<TrialPrediction> plans;
  bool operator==(const PredictedFrontier&) const = default;
};

void to_json(nlohmann::json& json, const TrialPrediction& predicted);
void from_json(const nlohmann::json& json, TrialPrediction& predicted);  // throws json::exception naming the field
void to_json(nlohmann::json& json, const PredictedFrontier& frontier);
void from_json(const nlohmann::json& json, PredictedFrontier& frontier);  // throws json::exception naming the field

int64_t required_bytes(const TrialPrediction& predicted);

std::optional<double> step_error(const TrialResultRow& row);
std::optional<double> peak_error(const TrialResultRow& row);

// Absolute errors over the trials that were predicted and worked.
struct PredictionErrorSummary {
  size_t trials = 0;
  double step_median = 0, step_most = 0;
  double peak_median = 0, peak_most = 0;
};
PredictionErrorSummary prediction_errors(std::span<const TrialResultRow> rows);

}  // namespace memtune::result
