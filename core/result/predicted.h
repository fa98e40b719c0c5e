// What a trial was expected to measure, told before it ran, and how far off that was: predicted / measured - 1, so that
// an error above 0 means that too much was expected. Pure functions over rows; errors are there where the trial worked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

namespace memtune::result {

struct Row;

struct Predicted {
  double step_ms = 0;
  int64_t peak_bytes = 0;  // allocated at most
  double least_ms = 0;     // on paper no plan that keeps the budget takes less; 0: not known, or no plan for a budget
  int64_t host_peak_bytes = 0, disk_peak_bytes = 0;  // that wait there at most
  bool operator==(const Predicted&) const = default;
};

// The best plans of many budgets at one setting, the smallest peak first. Only their figures: most were never run.
struct Frontier {
  std::optional<int64_t> batch, sequence;  // as of rows
  std::vector<Predicted> plans;
  bool operator==(const Frontier&) const = default;
};

void to_json(nlohmann::json& json, const Predicted& predicted);
void from_json(const nlohmann::json& json, Predicted& predicted);  // json::exception naming the field
void to_json(nlohmann::json& json, const Frontier& frontier);
void from_json(const nlohmann::json& json, Frontier& frontier);  // likewise

std::optional<double> step_error(const Row& row);
std::optional<double> peak_error(const Row& row);

// Without their signs, over the trials that were predicted and worked.
struct PredictionErrors {
  size_t trials = 0;
  double step_median = 0, step_most = 0;
  double peak_median = 0, peak_most = 0;
};
PredictionErrors prediction_errors(std::span<const Row> rows);

}  // namespace memtune::result
