// Reports with round numbers for tests.
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

inline constexpr int64_t kGiB = int64_t{1} << 30;

// A trial that worked: low and high are the median -+ `half`; 4 samples a step.
inline result::TrialResultRow worked(const std::string& strategy, double ms, double half, int64_t peak_bytes) {
  result::TrialResultRow row;
  result::TrialMeasurement& m = row.measurement;
  m.strategy = strategy;
  m.step_ms = {ms, ms - half, ms + half, {ms - half, ms, ms + half}};
  m.peak_bytes.allocated = m.peak_bytes.reserved = peak_bytes;
  m.samples_per_s = 4000 / ms;
  m.loss = {10.5};
  m.gradients = {true, true, 0, "", "none"};
  m.device = "NVIDIA H200";
  return row;
}

inline result::TrialResultRow failed(const std::string& strategy, result::TrialOutcome outcome,
                                     const std::string& reason) {
  result::TrialResultRow row;
  row.measurement.strategy = strategy;
  row.measurement.outcome = outcome;
  row.measurement.reason = reason;
  return row;
}

// none, a recompute, an offload with transfers, one with gradients equal only within noise, one that ran out of memory.
inline Report sample_report() {
  Report report;
  report.version = "0.1.0";
  report.model = "model.pt";
  report.device = "NVIDIA H200";
  report.settings = "tokens:int64[4,4096]<32000, next_token, adamw, bfloat16";
  report.rows.push_back(failed("offload:sync", result::TrialOutcome::device_oom,
                               "asked for 2 GiB in forward with 15.5 GiB in use; largest owners: layers.3.mlp 4 GiB"));
  report.rows.push_back(worked("checkpoint:full,inputs=host", 320, 0.5, 12 * kGiB));
  report.rows.push_back(worked("offload:stream", 500, 10, 14 * kGiB));
  report.rows.push_back(worked("none", 250, 1, 36 * kGiB));
  report.rows.push_back(worked("checkpoint:op", 275, 0.25, 20 * kGiB));
  report.rows[1].measurement.transfer = {kGiB, kGiB, 0, 0, 0.98, 0.7, 50, 50, 55, 55};
  report.rows[2].measurement.transfer = {10 * kGiB, 10 * kGiB, 0, 0, 0.5, 200, 50, 50, 55, 55};
  report.rows[2].measurement.gradients = {true, false, 0.00012, "layers.0.wq", "none"};
  report.rows[3].measurement.gradients = {};
  for (int i : {1, 3, 4}) report.rows[i].pareto = true;
  report.rows[1].recommended = true;
  report.recommendation = {"checkpoint:full,inputs=host", "the fastest of two that keep 16 GiB", true, {}, {}};
  return report;
}

}  // namespace memtune::report
