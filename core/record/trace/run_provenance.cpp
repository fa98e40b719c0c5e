#include "core/record/trace/run_provenance.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

namespace memtune::trace {

void to_json(nlohmann::json& json, const RunProvenance& origin) {
  json = {{"written", origin.written}, {"command", origin.command}, {"model", origin.model},
          {"memtune", origin.memtune}, {"torch", origin.torch},     {"driver", origin.driver},
          {"machine", origin.machine}};
}

void from_json(const nlohmann::json& json, RunProvenance& origin) {
  origin = {json.at("written"), json.at("command"), json.at("model"),  json.at("memtune"),
            json.at("torch"),   json.at("driver"),  json.at("machine")};
}

std::string utc_now() {
  const std::time_t time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%FT%TZ", &utc)};
}

}  // namespace memtune::trace
