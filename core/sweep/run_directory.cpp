#include "core/sweep/run_directory.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

// Of sweep.json and what lies beside it. Raised only when an earlier memtune would misread it: fields that it does not
// know, it passes over.
constexpr int kFormat = 1;

// Reasons quote logs, which need not be UTF-8.
std::string to_text(const json& value) { return value.dump(1, '\t', false, json::error_handler_t::replace) + "\n"; }

json optional_to_json(const std::optional<int64_t>& value) { return value ? json(*value) : json(nullptr); }

std::optional<int64_t> optional_from_json(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>());
}

json to_json(const TrialSpec& spec) {
  return {{"strategy", spec.strategy},
          {"batch", optional_to_json(spec.batch)},
          {"sequence", optional_to_json(spec.sequence)},
          {"key", spec.key},
          {"folder", spec.folder}};
}

TrialSpec spec_from_json(const json& value) {
  return {value.at("strategy"), optional_from_json(value.at("batch")), optional_from_json(value.at("sequence")),
          value.at("key"), value.at("folder")};
}

// Files from before the format was written have the first.
void refuse_later_format(const json& value, const std::filesystem::path& path) {
  const int format = value.value("format", 1);
  if (format <= kFormat) return;
  throw NewerFormat(path.string() + " has format " + std::to_string(format) + ", of memtune " +
                    value.value("version", "of a later version") +
                    "; this is memtune " MEMTUNE_VERSION ", which reads formats up to " + std::to_string(kFormat) +
                    ": open it with that version, or sweep into another folder with --out");
}

SweepRecord record_from_json(const json& value) {
  SweepRecord record;
  record.model = value.at("model");
  record.machine = value.at("machine");
  record.request = value.at("request").get<config::TrialRequest>();
  record.facts = {value.at("facts").get<config::ProgramFacts>(), value.at("inputs"), value.at("loss"), {}};
  if (value.contains("origin")) record.origin = value.at("origin").get<trace::Origin>();
  record.budget_bytes = value.at("budget_bytes");
  record.goal = result::parse_goal(value.at("goal"));
  for (const json& trial : value.at("trials")) record.trials.push_back(spec_from_json(trial));
  return record;
}

// "checkpoint:full,inputs=host" -> "checkpoint-full-inputs-host"
std::string slug(const std::string& strategy) {
  std::string text;
  for (const unsigned char c : strategy) {
    if (std::isalnum(c)) {
      text += static_cast<char>(std::tolower(c));
    } else if (!text.empty() && text.back() != '-') {
      text += '-';
    }
  }
  return text.substr(0, 60);
}

std::string settings_line(const SweepRecord& record) {
  const config::TrainingSettings& training = record.request.training;
  std::vector<std::string> parts = record.facts.inputs;
  if (!record.facts.loss.empty()) parts.push_back("loss " + record.facts.loss);
  parts.push_back(training.optimizer);
  if (!training.dtype.empty()) parts.push_back(training.dtype);
  if (!training.autocast.empty()) parts.push_back("autocast " + training.autocast);
  if (training.memory_cap_bytes > 0) parts.push_back("memory cap " + format_bytes(training.memory_cap_bytes));
  const auto steps = [](int count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? " step" : " steps");
  };
  parts.push_back(steps(training.steps, "measured") + " after " + steps(training.warmup, "warm-up"));
  return join(parts, ", ");
}

// The strategy whose gradients the others were compared with.
std::string reference_of(const report::Report& report) {
  for (const result::Row& row : report.rows) {
    if (!row.measurement.gradients.against.empty()) return row.measurement.gradients.against;
  }
  for (const result::Row& row : report.rows) {
    if (usable(row.measurement)) return row.measurement.strategy;
  }
  return "none";
}

}  // namespace

void RunDirectory::check_format() const try {
  const std::filesystem::path path = root_ / "sweep.json";
  if (std::filesystem::exists(path)) refuse_later_format(json::parse(read_file(path)), path);
} catch (const json::exception&) {  // damaged: a sweep mends it
}

void RunDirectory::write_record(const SweepRecord& record) const {
  json trials = json::array();
  for (const TrialSpec& spec : record.trials) trials.push_back(to_json(spec));
  const json value = {{"format", kFormat},
                      {"version", MEMTUNE_VERSION},
                      {"model", record.model},
                      {"machine", record.machine},
                      {"origin", record.origin},
                      {"request", record.request},
                      {"facts", record.facts.program},
                      {"inputs", record.facts.inputs},
                      {"loss", record.facts.loss},
                      {"budget_bytes", record.budget_bytes},
                      {"goal", to_string(record.goal)},
                      {"trials", trials}};
  write_file(root_ / "sweep.json", to_text(value));
}

SweepRecord RunDirectory::read_record() const {
  const std::filesystem::path path = root_ / "sweep.json";
  if (!std::filesystem::exists(path)) {
    throw UsageError("no sweep in " + root_.string() + " (it has no sweep.json); memtune sweep --out " +
                     root_.string() + " makes one");
  }
  try {
    const json value = json::parse(read_file(path));
    refuse_later_format(value, path);
    return record_from_json(value);
  } catch (const NewerFormat&) {
    throw;
  } catch (const std::exception& error) {
    throw UsageError(path.string() + " is damaged (" + error.what() + "); the same sweep again mends it");
  }
}

void RunDirectory::write_measurement(const std::string& folder, const result::Measurement& measurement) const {
  write_file(root_ / folder / "measurement.json", to_text(measurement));
}

std::optional<result::Measurement> RunDirectory::read_measurement(const std::string& folder) const try {
  return json::parse(read_file(root_ / folder / "measurement.json")).get<result::Measurement>();
} catch (const std::exception&) {
  return std::nullopt;
}

std::string RunDirectory::new_folder(const TrialSpec& spec) const {
  int highest = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(root_ / "trials", none)) {
    highest = std::max(highest, std::atoi(entry.path().filename().c_str()));
  }
  std::string name = std::to_string(highest + 1) + "-" + slug(spec.strategy);
  if (spec.batch) name += "-b" + std::to_string(*spec.batch);
  if (spec.sequence) name += "-s" + std::to_string(*spec.sequence);
  return "trials/" + name;
}

std::optional<config::Plan> read_plan(const std::filesystem::path& path) try {
  return nlohmann::json::parse(read_file(path)).get<config::Plan>();
} catch (const std::exception&) {
  return {};
}

report::Report make_report(const RunDirectory& directory, const SweepRecord& record) {
  report::Report report;
  report.version = MEMTUNE_VERSION;
  report.model = record.model;
  report.device = record.machine;
  report.settings = settings_line(record);
  report.origin = record.origin;
  report.budget_bytes = record.budget_bytes;
  report.notes = record.facts.program.notes;
  for (const TrialSpec& spec : record.trials) {
    if (auto measurement = directory.read_measurement(spec.folder)) {
      if (!measurement->device.empty()) report.device = measurement->device;
      report.emulated |= measurement->emulated;
      report.rows.push_back({std::move(*measurement), false, false, spec.batch, spec.sequence});
    }
  }
  const size_t missing = record.trials.size() - report.rows.size();
  if (missing > 0) {
    report.notes.push_back(std::to_string(missing) + " of " + std::to_string(record.trials.size()) +
                           " trials have not run; the same sweep again goes on where it stopped");
  }
  report.reference = reference_of(report);
  report.recommendation = recommend(report.rows, record.budget_bytes, record.goal);
  mark_rows(report.rows, report.recommendation);
  return report;
}

}  // namespace memtune::sweep
