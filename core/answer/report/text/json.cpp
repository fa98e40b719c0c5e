#include "core/answer/report/text/json.h"

#include <nlohmann/json.hpp>

#include "core/answer/report/alternatives.h"
#include "core/answer/report/gain_over_user_config.h"
#include "core/answer/report/prediction.h"
#include "core/answer/report/saving.h"
#include "core/answer/report/words.h"
#include "core/answer/result/effect.h"
#include "core/answer/result/oom_cause.h"
#include "core/answer/result/oom_remedy.h"
#include "core/answer/result/save_interval.h"
#include "core/answer/result/time_advice.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace memtune::report {
namespace {

using result::TrialResultRow;

void put_axes(nlohmann::json& json, std::optional<int64_t> batch, std::optional<int64_t> sequence) {
  if (batch) json["batch"] = *batch;
  if (sequence) json["sequence"] = *sequence;
}

void read_axes(const nlohmann::json& json, std::optional<int64_t>& batch, std::optional<int64_t>& sequence) {
  if (json.contains("batch")) batch = whole_at(json, "batch", 0);
  if (json.contains("sequence")) sequence = whole_at(json, "sequence", 0);
}

nlohmann::json predicted(const TrialResultRow& row) {
  nlohmann::json json = *row.predicted;
  if (const auto error = step_error(row)) json["step_error"] = *error;
  if (const auto error = peak_error(row)) json["peak_error"] = *error;
  return json;
}

nlohmann::json trial(const TrialResultRow& row) {
  nlohmann::json json = row.measurement;
  json["no_effect"] = effect_text(row.measurement);
  json["equal_to"] = has_ineffective_part(row.measurement) ? effective_strategy(row.measurement) : "";
  if (row.measurement.oom) {
    const result::OomCause cause = cause_of(*row.measurement.oom);
    const std::vector<std::string> found = remedies(cause, *row.measurement.oom);
    json["oom"].update({{"cause", to_string(cause)}, {"remedy", found.front()}, {"remedies", found}});
  }
  if (row.measurement.time_shares) json["time_shares"]["advice"] = result::time_advice(*row.measurement.time_shares);
  json["pareto"] = row.pareto;
  json["recommended"] = row.recommended;
  put_axes(json, row.batch, row.sequence);
  if (!row.saves.empty()) json["saves"] = row.saves;
  if (row.passes > 1) json["passes"] = row.passes;
  if (!row.command.empty()) json["command"] = row.command;
  if (!row.config.empty()) json["config"] = row.config;
  if (!row.python.empty()) json["python"] = row.python;
  if (row.predicted) json["predicted"] = predicted(row);
  return json;
}

void put_ways(const Report& report, nlohmann::json& json) {
  json["trainer"] = report.trainer;
  if (!report.no_plan.empty()) json["no_plan"] = report.no_plan;
  json["ways"] = nlohmann::json::array();
  for (const BestTrialWithTrainerSettingsOrPythonPlan& alternative : alternatives(report)) {
    nlohmann::json& each = json["ways"].emplace_back(nlohmann::json{
        {"by", alternative.by_plan ? "python" : "keys"}, {"fits", alternative.fits}, {"text", alternative.text}});
    if (!alternative.row) continue;
    each["strategy"] = alternative.row->measurement.strategy;
    each["step_ms"] = alternative.row->measurement.step_ms.median;
    each["peak_bytes"] = peak(*alternative.row);
    each["required_bytes"] = required_bytes(*alternative.row);
  }
}

// The advice on saving, if saves were measured and a failure rate is given.
std::optional<nlohmann::json> saving(const Report& report) {
  const TrialResultRow* row = saving_row(report);
  if (!row || report.mtbf_s <= 0) return {};
  const auto advice = result::advise(row->saves, row->measurement.step_ms.median, report.mtbf_s);
  if (!advice) return {};
  return nlohmann::json{{"mode", advice->mode},
                        {"every_steps", advice->every_steps},
                        {"interval_s", advice->interval_s},
                        {"overhead", advice->overhead},
                        {"mtbf_s", advice->mtbf_s}};
}

nlohmann::json finding(const findings::Finding& finding) {
  const findings::FindingTraceEvidence& evidence = finding.evidence;
  return {{"severity", to_string(finding.severity)},
          {"rule", finding.rule},
          {"what", finding.what},
          {"advice", finding.advice},
          {"instead", finding.alternative_strategy},
          {"ms_per_step", finding.ms_per_step},
          {"bytes", finding.bytes},
          {"evidence",
           {{"strategy", evidence.strategy},
            {"start_ns", evidence.start_ns},
            {"end_ns", evidence.end_ns},
            {"events", evidence.events},
            {"value", evidence.value ? static_cast<int64_t>(evidence.value.index()) : -1}}}};
}

}  // namespace

std::string to_json_text(const Report& report) {
  nlohmann::json trials = nlohmann::json::array();
  for (const TrialResultRow& row : report.rows) trials.push_back(trial(row));
  nlohmann::json findings = nlohmann::json::array();
  for (const findings::Finding& each : report.findings) findings.push_back(finding(each));
  const result::Recommendation& advice = report.recommendation;
  nlohmann::json recommendation = {{"strategy", advice.strategy}, {"reason", advice.reason}, {"fits", advice.fits}};
  put_axes(recommendation, advice.batch, advice.sequence);
  if (const auto gained = gain(report))
    recommendation["gain"] = {{"over", gained->over->measurement.strategy},
                              {"time_ratio", gained->time.value},
                              {"time_ratio_low", gained->time.low},
                              {"time_ratio_high", gained->time.high},
                              {"peak_bytes", gained->peak_bytes}};
  if (const auto price = benefit_of_more_memory(report))
    recommendation.update({{"next_gib_ms", price->ms_per_gib},
                           {"next_gib_strategy", price->row->measurement.strategy},
                           {"next_gib_peak_bytes", peak(*price->row)},
                           {"next_gib_required_bytes", required_bytes(*price->row)}});
  nlohmann::json json = {{"trials", trials},
                         {"recommendation", recommendation},
                         {"findings", findings},
                         {"version", report.version},
                         {"model", report.model},
                         {"device", report.device},
                         {"settings", report.settings},
                         {"origin", report.origin},
                         {"reference", report.reference},
                         {"emulated", report.emulated},
                         {"warnings", warnings(report)},
                         {"budget_bytes", report.budget_bytes},
                         {"notes", report.notes}};
  if (report.global_batch > 0) json["global_batch"] = report.global_batch;
  if (!report.own_config.empty()) json["own"] = {{"config", report.own_config}, {"strategy", report.own_strategy}};
  if (const auto advice = saving(report)) json["saving"] = *advice;
  if (!report.frontiers.empty()) json["frontiers"] = report.frontiers;
  if (report.planned) put_ways(report, json);
  // File names may be invalid UTF-8; these bytes are replaced.
  return print_json(json, 2) + "\n";
}

Report from_json_text(const std::string& text, const std::string& what) try {
  const nlohmann::json json = parse_json(text);
  Report report;
  for (const nlohmann::json& trial : json.at("trials")) {
    TrialResultRow row{
        trial.get<result::TrialMeasurement>(), trial.value("pareto", false), trial.value("recommended", false), {}, {}};
    read_axes(trial, row.batch, row.sequence);
    if (trial.contains("passes")) row.passes = whole_at(trial, "passes", 1);
    row.command = trial.value("command", std::vector<std::string>());
    row.config = trial.value("config", "");
    row.python = trial.value("python", "");
    if (trial.contains("predicted")) row.predicted = trial.at("predicted").get<result::TrialPrediction>();
    report.rows.push_back(std::move(row));
  }
  const nlohmann::json& advice = json.at("recommendation");
  report.recommendation = {advice.at("strategy"), advice.at("reason"), advice.at("fits"), {}, {}};
  read_axes(advice, report.recommendation.batch, report.recommendation.sequence);
  report.version = json.value("version", "");
  report.model = json.value("model", "");
  if (json.contains("global_batch")) report.global_batch = whole_at(json, "global_batch", 0);
  if (json.contains("own")) {
    report.own_config = json.at("own").value("config", "");
    report.own_strategy = json.at("own").value("strategy", "");
  }
  report.device = json.value("device", "");
  report.settings = json.value("settings", "");
  if (json.contains("origin")) report.origin = json.at("origin").get<trace::RunProvenance>();
  report.reference = json.value("reference", "none");
  report.emulated = json.value("emulated", false);
  if (json.contains("frontiers")) json.at("frontiers").get_to(report.frontiers);
  report.notes = json.value("notes", std::vector<std::string>());
  report.planned = json.contains("ways");
  report.trainer = json.value("trainer", "");
  report.no_plan = json.value("no_plan", "");
  return report;
} catch (const std::exception& error) {
  throw UsageError(what + " is no report of memtune (" + error.what() + "); memtune report --format json makes one");
}

}  // namespace memtune::report
