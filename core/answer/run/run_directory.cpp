#include "core/answer/run/run_directory.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

// Format of sweep.json and the files next to it. It is raised only if an earlier memtune would misread them; that
// ignores fields that it does not know.
constexpr int kFormat = 2;       // for sweeps of commands, which format 1 does not have
constexpr int kModelFormat = 1;  // for sweeps of models

constexpr size_t kLongestName = 60;        // of a strategy in a folder's name
constexpr int kMaxTrials = 1'000'000'000;  // keeps folder numbers far from overflow

// Reasons quote logs, which may not be UTF-8.
std::string to_text(const json& value) { return value.dump(1, '\t', false, json::error_handler_t::replace) + "\n"; }

json optional_to_json(const std::optional<int64_t>& value) { return value ? json(*value) : json(nullptr); }

std::optional<int64_t> optional_from_json(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(whole(value, 0));
}

json to_json(const SweepTrialEntry& spec) {
  json value = {{"strategy", spec.strategy},
                {"batch", optional_to_json(spec.batch)},
                {"sequence", optional_to_json(spec.sequence)},
                {"key", spec.key},
                {"folder", spec.folder},
                {"saves", spec.saves},
                {"notes", spec.notes}};
  if (spec.predicted) value["predicted"] = *spec.predicted;
  return value;
}

SweepTrialEntry spec_from_json(const json& value) {
  SweepTrialEntry spec{value.at("strategy"), optional_from_json(value.at("batch")),
                       optional_from_json(value.at("sequence")), value.at("key"), value.at("folder")};
  if (!spec.folder.empty() && !is_trial_folder(spec.folder))
    throw UsageError("'" + spec.folder + "' is no folder of a trial");
  if (value.contains("saves")) value.at("saves").get_to(spec.saves);
  if (value.contains("notes")) value.at("notes").get_to(spec.notes);
  if (value.contains("predicted")) spec.predicted = value.at("predicted").get<result::TrialPrediction>();
  return spec;
}

// Files without the field have format 1.
void refuse_later_format(const json& value, const std::filesystem::path& path) {
  const int format = value.contains("format") ? whole_int_at(value, "format") : 1;
  if (format <= kFormat) return;
  throw NewerFormatError(path.string() + " has format " + std::to_string(format) + ", of memtune " +
                         value.value("version", "of a later version") +
                         "; this is memtune " MEMTUNE_VERSION ", which reads formats up to " + std::to_string(kFormat) +
                         ": open it with that version, or sweep into another folder with --out");
}

SweepJsonSettingsFactsAndTrials record_from_json(const json& value) {
  SweepJsonSettingsFactsAndTrials record;
  record.model = value.at("model");
  record.machine = value.at("machine");
  if (value.contains("command")) {
    record.command = value.at("command").get<CommandSweepSettingsAndVariants>();
  } else {
    record.request = value.at("request").get<plan::TrialRequest>();
    record.facts = {value.at("facts").get<plan::ProgramFacts>(), value.at("inputs"), value.at("loss"), {}};
  }
  if (value.contains("origin")) record.origin = value.at("origin").get<trace::RunProvenance>();
  record.budget_bytes = whole_at(value, "budget_bytes", 0, kMaxBytes);
  record.goal = result::parse_goal(value.at("goal"));
  if (value.contains("global_batch")) record.global_batch = whole_at(value, "global_batch", 0);
  if (value.contains("mtbf_s")) record.mtbf_s = number_at(value, "mtbf_s", 0, kMaxFigure);
  if (value.contains("keep_last")) record.keep_last = whole_at(value, "keep_last", 0);
  if (value.contains("own")) {
    record.own_config = value.at("own").at("config");
    record.own_strategy = value.at("own").at("strategy");
  }
  if (value.contains("frontiers")) value.at("frontiers").get_to(record.frontiers);
  for (const json& trial : value.at("trials")) record.trials.push_back(spec_from_json(trial));
  return record;
}

// Checksum of all other fields. Older files have none.
constexpr const char* kCheck = "check";

std::string text_with_check(const json& value) {
  json checked = parse_json(to_text(value));  // as it will be read
  checked[kCheck] = hash_hex(checked.dump());
  return to_text(checked);
}

bool has_its_check(json& value) {
  if (!value.contains(kCheck)) return true;
  const std::string check = value.at(kCheck);
  value.erase(kCheck);
  return hash_hex(value.dump()) == check;
}

// The number at the start of a trial folder's name; 0 if memtune gives no such name.
int number_of(const std::string& name) {
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && number > 0 && number < kMaxTrials ? number : 0;
}

// True for files that memtune writes in a run directory. While being written, a file is NAME.tmp.PROCESS[.NUMBER].
bool is_own_file(const std::string& name) {
  static const std::array<std::string_view, 7> kNames = {
      "sweep.json", "request.json", "facts.json", "plan.json", "measurement.json", "trace.mttrace", "memory.stacks"};
  if (std::ranges::find(kNames, name) != kNames.end()) return true;
  return name.starts_with("reference-") && name.ends_with(".bin") && name.find('/') == std::string::npos;
}

// True for a temporary file whose process has ended.
bool is_left_behind(const std::string& name) {
  const size_t mark = name.find(".tmp.");
  if (mark == std::string::npos || !is_own_file(name.substr(0, mark))) return false;
  int process = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + mark + 5, end, process);
  const bool numbered =
      rest == end || (*rest == '.' && std::all_of(rest + 1, end, [](char c) { return c >= '0' && c <= '9'; }));
  if (error != std::errc() || process <= 0 || !numbered) return false;
  return process != ::getpid() && ::kill(process, 0) < 0 && errno == ESRCH;
}

// Folders in `parent`. Symbolic links are not followed.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& parent) {
  std::error_code none;
  std::vector<std::filesystem::path> folders;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(parent, none))) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(parent, none))
    if (std::filesystem::is_directory(entry.symlink_status(none))) folders.push_back(entry.path());
  return folders;
}

}  // namespace

void RunDirectory::check_format() const {
  const std::filesystem::path path = root_ / "sweep.json";
  if (!std::filesystem::exists(std::filesystem::symlink_status(path))) return;
  const bool has_journal = std::filesystem::is_regular_file(std::filesystem::symlink_status(root_ / "journal.jsonl"));
  const auto refuse = [&] {
    throw UsageError("'" + path.string() + "' is there and no sweep of memtune; sweep into another folder with --out");
  };
  try {
    const json value = parse_json(read_file(path, *files_));
    if (!value.is_object() || !(value.contains("trials") || has_journal)) refuse();
    refuse_later_format(value, path);
  } catch (const json::exception&) {  // damaged: the next sweep overwrites it
    if (!has_journal) refuse();
  }
}

void RunDirectory::remove_temporaries() const {
  std::error_code none;
  std::vector<std::filesystem::path> folders = {root_};
  for (const char* parent : {"trials", "inspect"})
    for (std::filesystem::path& folder : folders_in(root_ / parent)) folders.push_back(std::move(folder));
  for (const std::filesystem::path& folder : folders) {
    std::vector<std::filesystem::path> stale;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none))
      if (entry.is_regular_file(none) && is_left_behind(entry.path().filename().string()))
        stale.push_back(entry.path());
    for (const std::filesystem::path& path : stale) files_->unlink(path);
  }
}

// Folders that contain other files are not removed.
void RunDirectory::remove_inspections() const {
  for (const std::filesystem::path& look : folders_in(root_ / "inspect")) {
    for (const char* name : {"request.json", "facts.json", "log.txt"}) files_->unlink(look / name);
    files_->remove_folder(look);
  }
  files_->remove_folder(root_ / "inspect");
  files_->unlink(root_ / "lock");
  files_->remove_folder(root_);
}

void RunDirectory::write_record(const SweepJsonSettingsFactsAndTrials& record) const {
  json trials = json::array();
  for (const SweepTrialEntry& spec : record.trials) trials.push_back(to_json(spec));
  json value = {{"format", record.command ? kFormat : kModelFormat},
                {"version", MEMTUNE_VERSION},
                {"model", record.model},
                {"machine", record.machine},
                {"origin", record.origin},
                {"budget_bytes", record.budget_bytes},
                {"goal", to_string(record.goal)},
                {"global_batch", record.global_batch},
                {"mtbf_s", record.mtbf_s},
                {"keep_last", record.keep_last},
                {"trials", trials}};
  if (record.command)
    value["command"] = *record.command;
  else
    value.update(json{{"request", record.request},
                      {"facts", record.facts.program},
                      {"inputs", record.facts.inputs},
                      {"loss", record.facts.loss}});
  if (!record.own_config.empty()) value["own"] = {{"config", record.own_config}, {"strategy", record.own_strategy}};
  if (!record.frontiers.empty()) value["frontiers"] = record.frontiers;
  write_file(root_ / "sweep.json", to_text(value), *files_);
}

SweepJsonSettingsFactsAndTrials RunDirectory::read_record() const {
  const std::filesystem::path path = root_ / "sweep.json";
  if (!std::filesystem::exists(path)) {
    throw UsageError("no sweep in " + root_.string() + " (it has no sweep.json); memtune sweep --out " +
                     root_.string() + " makes one");
  }
  try {
    const json value = parse_json(read_file(path, *files_));
    refuse_later_format(value, path);
    return record_from_json(value);
  } catch (const NewerFormatError&) {
    throw;
  } catch (const std::exception& error) {
    throw UsageError(path.string() + " is damaged (" + error.what() + "); the same sweep again repairs it");
  }
}

void RunDirectory::write_measurement(const std::string& folder, const result::TrialMeasurement& measurement) const {
  write_file(root_ / folder / "measurement.json", text_with_check(measurement), *files_);
}

std::optional<result::TrialMeasurement> RunDirectory::read_measurement(const std::string& folder) const try {
  json value = parse_json(read_file(root_ / folder / "measurement.json", *files_));
  if (!has_its_check(value)) return std::nullopt;
  auto measurement = value.get<result::TrialMeasurement>();
  if (!measurement.plan.empty()) measurement.plan = folder + "/plan.json";
  if (!measurement.trace.empty()) measurement.trace = folder + "/trace.mttrace";
  return measurement;
} catch (const std::exception&) {
  return std::nullopt;
}

std::string RunDirectory::new_folder(const SweepTrialEntry& spec) const {
  int highest = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(root_ / "trials", none)) {
    highest = std::max(highest, number_of(entry.path().filename().string()));
  }
  std::string name = std::to_string(highest + 1) + "-" + dashed(spec.strategy, kLongestName);
  if (spec.batch) name += "-b" + std::to_string(*spec.batch);
  if (spec.sequence) name += "-s" + std::to_string(*spec.sequence);
  return "trials/" + name;
}

bool is_trial_folder(const std::string& folder) {
  constexpr std::string_view kParent = "trials/";
  if (!folder.starts_with(kParent)) return false;
  const std::string name = folder.substr(kParent.size());
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

std::optional<plan::Plan> read_plan(const std::filesystem::path& path) try {
  ConfinedFileSystem folder(path.parent_path());
  return parse_json(read_file(path, folder)).get<plan::Plan>();
} catch (const std::exception&) {
  return {};
}

}  // namespace memtune::sweep
