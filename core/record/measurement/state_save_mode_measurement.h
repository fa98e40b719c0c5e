// Cost of one mode of saving a training's state, and its effect on concurrent steps. Plain data; to_json writes the
// names that scripts read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/record/measurement/trial_measurement.h"

namespace memtune::result {

// The first save allocates memory, so its times are separate. Other times are of the later saves.
struct StateSaveModeMeasurement {
  std::string mode;  // a word of kSaveModes
  TrialOutcome outcome = TrialOutcome::ok;
  std::string reason;                             // why not ok: one line
  int64_t saves = 0;                              // number of measured saves, the first included
  int64_t bytes = 0;                              // of a state
  double first_blocked_ms = 0;                    // first save: time training was blocked
  double first_durable_ms = 0;                    // first save: from its start until durable
  double blocked_ms = 0, most_blocked_ms = 0;     // median and largest
  double durable_ms = 0;                          // median
  double total_ms = 0;                            // median from start to end, including removal of the previous state
  double step_ms = 0;                             // median of steps without a concurrent save
  std::optional<double> slowdown = std::nullopt;  // median step during a save / step_ms
  std::string no_slowdown = "";                   // why slowdown is not known; "": it is known
  double slowed_ms = 0;         // median extra time of the steps until the save's end, without blocked_ms
  int64_t steps_with_save = 0;  // steps with a save running from start to end
  double load_ms = 0;           // time to load a state, checks included
  int64_t host_bytes = 0;       // peak host memory of saves
};

// One save, observed between steps.
struct StateSaveWithConcurrentStepTimes {
  double blocked_ms = 0, durable_ms = 0, total_ms = 0;
  int64_t bytes = 0;
  std::vector<double> steps_ms = {};  // steps that started before the save ended; it ended during the last one
  double within_steps_ms = 0;         // the part of blocked_ms that is included in steps_ms
};

// Computes the numbers of a mode from its saves, at least one, and from steps without a save.
void summarize(const std::vector<StateSaveWithConcurrentStepTimes>& saves, const std::vector<double>& steps_alone_ms,
               StateSaveModeMeasurement& to);

void to_json(nlohmann::json& json, const StateSaveModeMeasurement& measurement);
void from_json(const nlohmann::json& json, StateSaveModeMeasurement& measurement);

}  // namespace memtune::result
