// Trial rows with round numbers.
#pragma once

#include <string>
#include <vector>

#include "core/record/measurement/trial_result_row.h"

namespace memtune::result {

// A trial that worked.
inline TrialResultRow row(const std::string& strategy, double ms, int64_t peak_gib = 1) {
  TrialResultRow row;
  row.measurement.strategy = strategy;
  row.measurement.step_ms = {ms, ms, ms, {ms}};
  row.measurement.peak_bytes.allocated = peak_gib << 30;
  return row;
}

// One sample a step: 1024 tokens in 100 ms, 4096 in 300 ms.
inline std::vector<TrialResultRow> two_lengths() {
  std::vector<TrialResultRow> rows = {row("none", 100, 10), row("none", 300, 20)};
  for (TrialResultRow& row : rows) {
    const double s = row.measurement.step_ms.median / 1000;
    row.sequence = row.measurement.step_ms.median == 100 ? 1024 : 4096;
    row.measurement.samples_per_s = 1 / s;
    row.measurement.tokens_per_s = static_cast<double>(*row.sequence) / s;
  }
  return rows;
}

// One sample in 100 ms, two in 150 ms; no tokens.
inline std::vector<TrialResultRow> two_batches() {
  std::vector<TrialResultRow> rows = {row("none", 100, 10), row("none", 150, 18)};
  for (TrialResultRow& row : rows) {
    row.batch = row.measurement.step_ms.median == 100 ? 1 : 2;
    row.measurement.samples_per_s = 1000 * static_cast<double>(*row.batch) / row.measurement.step_ms.median;
  }
  return rows;
}

}  // namespace memtune::result
