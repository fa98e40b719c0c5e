// Origin of measurements: command, time, versions, machine. Unknown fields are empty.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace memtune::trace {

struct RunProvenance {
  std::string written;  // "2026-11-22T07:30:00Z"
  std::string command;  // as typed by the user
  std::string model;
  std::string memtune, torch, driver;  // versions
  std::string machine;
};

void to_json(nlohmann::json& json, const RunProvenance& origin);
void from_json(const nlohmann::json& json, RunProvenance& origin);

std::string utc_now();  // for Origin::written

}  // namespace memtune::trace
