#include "core/report/json.h"

#include <nlohmann/json.hpp>

namespace memtune::report {
namespace {

void put_axes(nlohmann::json& json, std::optional<int64_t> batch, std::optional<int64_t> sequence) {
  if (batch) json["batch"] = *batch;
  if (sequence) json["sequence"] = *sequence;
}

nlohmann::json trial(const Row& row) {
  nlohmann::json json = row.measurement;
  json["pareto"] = row.pareto;
  json["recommended"] = row.recommended;
  put_axes(json, row.batch, row.sequence);
  return json;
}

nlohmann::json finding(const Finding& finding) {
  const Evidence& evidence = finding.evidence;
  return {{"severity", to_string(finding.severity)},
          {"rule", finding.rule},
          {"what", finding.what},
          {"advice", finding.advice},
          {"ms_per_step", finding.ms_per_step},
          {"bytes", finding.bytes},
          {"evidence",
           {{"strategy", evidence.strategy},
            {"start_ns", evidence.start_ns},
            {"end_ns", evidence.end_ns},
            {"events", evidence.events},
            {"value", evidence.value}}}};
}

}  // namespace

std::string to_json_text(const Report& report) {
  nlohmann::json trials = nlohmann::json::array();
  for (const Row& row : report.rows) trials.push_back(trial(row));
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& each : report.findings) findings.push_back(finding(each));
  const Recommendation& advice = report.recommendation;
  nlohmann::json recommendation = {{"strategy", advice.strategy}, {"reason", advice.reason}, {"fits", advice.fits}};
  put_axes(recommendation, advice.batch, advice.sequence);
  nlohmann::json json = {{"trials", trials},
                         {"recommendation", recommendation},
                         {"findings", findings},
                         {"version", report.version},
                         {"model", report.model},
                         {"device", report.device},
                         {"settings", report.settings},
                         {"reference", report.reference},
                         {"emulated", report.emulated},
                         {"notes", report.notes}};
  // File names need not be UTF-8; a report with a replacement character is better than none.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace memtune::report
