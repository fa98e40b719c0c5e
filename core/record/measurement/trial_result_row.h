// A finished trial as a row of the results: measurement, batch, sequence length, and its rank among the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/record/measurement/state_save_mode_measurement.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/measurement/trial_prediction.h"

namespace memtune::result {

struct TrialResultRow {
  TrialMeasurement measurement;
  bool pareto = false;  // no other trial with the same batch and sequence is faster and smaller
  bool recommended = false;
  std::optional<int64_t> batch;  // set if it is an axis of the sweep
  std::optional<int64_t> sequence;
  std::vector<StateSaveModeMeasurement> saves =
      {};                                 // saving states under its plan, one per save mode; empty: not measured
  int64_t passes = 1;                     // micro-batches per step (gradient accumulation)
  std::vector<std::string> command = {};  // the measured command, if it is an external one
  std::string config = {};                // path of the config written for it; "": none
  std::string python = {};                // path of the Python plan it ran under; "": none
  bool base = false;                      // the unchanged command in a sweep of commands; otherwise `none` is the base
  std::optional<TrialPrediction> predicted = {};  // before it ran
};

bool worked(const TrialResultRow& row);
bool is_base(const TrialResultRow& row);            // the row that others are compared with
bool is_planned(const TrialResultRow& row);         // a plan computed for this model and machine: "plan:..."
int64_t peak(const TrialResultRow& row);            // peak allocated, in bytes
int64_t required_bytes(const TrialResultRow& row);  // see the function of its measurement
bool same_axes(const TrialResultRow& a, const TrialResultRow& b);   // batch and sequence
bool same_trial(const TrialResultRow& a, const TrialResultRow& b);  // strategy, batch and sequence

// "batch 2, seq 1024"; only the axes that are set.
std::string axes_text(std::optional<int64_t> batch, std::optional<int64_t> sequence);
// "offload:stream, batch 2, seq 1024", safe to print on a terminal.
std::string label(const std::string& strategy, std::optional<int64_t> batch, std::optional<int64_t> sequence);
std::string label(const TrialResultRow& row);

// `rows` must outlive the result.
std::vector<const TrialResultRow*> pointers_to(std::span<const TrialResultRow> rows);

}  // namespace memtune::result
