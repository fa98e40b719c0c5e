// "memtune fit": what a training would take on GPUs that are not there, from the model's shapes alone. A process
// records the bytes of a step, without values or kernels. Its times are those of each card's rates. Strategies and
// plans are then simulated as from a recorded trial.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/report/text/table.h"
#include "core/plan/facts/machine_profile.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/predict/shape_only_step_fit_and_time_predictor.h"

namespace memtune::sweep {

struct GpuMemoryFitRequest {
  EngineSweepSettings sweep;  // model, training and strategies; the rest is ignored
  std::vector<plan::MachineProfile> cards;
};

struct GpuStrategyFitsAndPlan {
  plan::MachineProfile card;
  std::vector<StrategyGpuMemoryFit> strategies;  // in the given order, then the plan, if one fits
  std::optional<plan::Plan> plan;                // the last of `strategies`; none fits if there is none
  std::string note;                              // on the plan, for the user; "": none
  int64_t least_bytes = 0;                       // that any plan needs
  std::optional<size_t> fastest;                 // of `strategies`, of those that fit
};

struct GpuMemoryFitReport {
  std::string title;
  int blocks = 0;  // of the model
  std::vector<GpuStrategyFitsAndPlan> cards;
  std::vector<std::string> notes;  // for the user

  bool any_fits() const;
};

// Throws UsageError for errors of the user, and for a model or training that shapes cannot predict; Error if the
// process fails. Empty after a signal.
std::optional<GpuMemoryFitReport> predict_fit(const GpuMemoryFitRequest& options, SweepListener& listener);

// A table of strategies for one card, a row per card for several.
std::string to_text(const GpuMemoryFitReport& report, report::TerminalCapabilities style);
nlohmann::json to_json(const GpuMemoryFitReport& report);

}  // namespace memtune::sweep
