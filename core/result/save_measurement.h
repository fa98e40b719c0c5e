// What one way of saving a training's state cost, and what it did to the steps beside it. Plain data; to_json writes
// the names that scripts read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/result/measurement.h"

namespace memtune::result {

// The first save, which allocates, stands for itself; the others are of the later ones.
struct SaveMeasurement {
  std::string mode;  // of config::kSaveModes
  Outcome outcome = Outcome::ok;
  std::string reason;                             // why not ok: one line
  int64_t saves = 0;                              // that were measured, the first among them
  int64_t bytes = 0;                              // of a state
  double first_blocked_ms = 0;                    // of the first save: that training waited
  double first_durable_ms = 0;                    // from its beginning until it was on the disk
  double blocked_ms = 0, most_blocked_ms = 0;     // median and largest
  double durable_ms = 0;                          // median
  double total_ms = 0;                            // median until it had ended, the one before taken away
  double step_ms = 0;                             // median of steps that had no save beside them
  std::optional<double> slowdown = std::nullopt;  // median of steps with a save on its way, to that
  std::string no_slowdown = "";                   // why there is none; "": there is one
  double slowed_ms = 0;                           // median of what the steps until its end took more, less blocked_ms
  int64_t steps_beside = 0;                       // that had a save on its way from beginning to end
  double load_ms = 0;                             // to read a state back, with all its checks
  int64_t host_bytes = 0;                         // that saves held beside training, at most
};

// A save as it was seen between steps.
struct ObservedSave {
  double blocked_ms = 0, durable_ms = 0, total_ms = 0;
  int64_t bytes = 0;
  std::vector<double> steps_ms = {};  // that began before it had ended; in the last of them it did
  double within_steps_ms = 0;         // of blocked_ms: what is in the steps' times
};

// The figures of a mode from its saves, at least one, and the steps without.
void summarize(const std::vector<ObservedSave>& saves, const std::vector<double>& steps_alone_ms, SaveMeasurement& to);

void to_json(nlohmann::json& json, const SaveMeasurement& measurement);
void from_json(const nlohmann::json& json, SaveMeasurement& measurement);

}  // namespace memtune::result
