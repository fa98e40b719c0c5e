#include "core/sweep/commands/command_sweep_backend.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/answer/trainer/remedy_words.h"
#include "core/base/allocator_settings.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/measure/attach/command.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/directory/locked_run_directory.h"
#include "core/sweep/loop/machine_load.h"
#include "core/sweep/loop/sweep_loop.h"
#include "core/sweep/loop/trial_key.h"

extern char** environ;

namespace memtune::sweep {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxHashed = uintmax_t{64} << 20;  // larger files are data and are not hashed

// Searches PATH like execvp(). "" if it is not found.
std::string find_program(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos)
    return fs::is_regular_file(name, error) && ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "/bin:/usr/bin", ':')) {
    const std::string program = (fs::path(folder.empty() ? "." : folder) / name).string();
    if (fs::is_regular_file(program, error) && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

void check_program(const std::vector<std::string>& command) {
  const std::string name = command.empty() ? "" : command.front();
  if (!name.empty() && !find_program(name).empty()) return;
  std::error_code error;
  const bool is_there = name.find('/') != std::string::npos && fs::exists(name, error);
  throw UsageError("cannot run '" + name + "': " + (is_there ? "it is no file that may be run" : "no such program"));
}

std::string hash_if_small(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none) && fs::file_size(path, none) <= kMaxHashed ? hash_file(path) : "";
}

// A word may be a file, or a flag and a file: --config=mine.yaml. Only scripts and configs are hashed; the command may
// write other files.
std::string hash_of_file_in(const std::string& word) {
  static constexpr std::array kInputs = {".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg"};
  for (const fs::path& path : {fs::path(word), fs::path(word.substr(word.find('=') + 1))})
    if (std::ranges::find(kInputs, path.extension().string()) != kInputs.end())
      if (std::string hash = hash_if_small(path); !hash.empty()) return hash;
  return "";
}

// Environment variables that PyTorch and its libraries react to, sorted.
std::vector<std::string> environment() {
  static constexpr std::array kPrefixes = {"PYTORCH_", "TORCH", "CUDA_", "NCCL_", "OMP_", "ACCELERATE_", "PYTHONPATH="};
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable)
    if (std::ranges::any_of(kPrefixes,
                            [&](const char* prefix) { return std::string_view(*variable).starts_with(prefix); }))
      variables.emplace_back(*variable);
  std::ranges::sort(variables);
  return variables;
}

// Comments of a Python plan hold figures and dates, which do not make it another plan.
std::string without_comments(const std::string& text) {
  std::string rest;
  for (const std::string& line : split(text, '\n'))
    if (!line.starts_with('#')) rest += line + "\n";
  return rest;
}

TrialPhaseProgress phase_of(const attach::CommandProgress& now) {
  if (now.steps == 0) return {"tracing"};
  const std::string ms = now.step_ms ? ms_text(*now.step_ms) + ", " : "";
  return {"step", static_cast<int>(now.step), static_cast<int>(now.steps), ms + format_bytes(now.peak_bytes)};
}

}  // namespace

CommandSweepBackend::CommandSweepBackend(const CommandSweepSettings& settings, SweepListener& listener,
                                         const RunDirectory& directory, SweepJsonSettingsFactsAndTrials& record)
    : settings_(settings), listener_(listener), directory_(directory), record_(record) {}

bool CommandSweepBackend::describe() {
  record_.command = settings_.sweep;
  if (record_.budget_bytes == 0) record_.budget_bytes = settings_.sweep.memory_cap_bytes;
  return true;
}

std::string CommandSweepBackend::device() const { return fs::exists("/proc/driver/nvidia/gpus") ? "cuda" : "cpu"; }

trace::RunProvenance CommandSweepBackend::origin() const {
  trace::RunProvenance origin;
  origin.memtune = MEMTUNE_VERSION;
  return origin;
}

std::optional<std::vector<SweepTrialAndMeasurement>> CommandSweepBackend::chosen(
    std::span<const SweepTrialAndMeasurement> tried) {
  if (!settings_.choose) return {};
  const auto names = settings_.choose(tried, *record_.command);
  if (!names) return {};
  std::vector<SweepTrialAndMeasurement> trials;
  for (const std::string& name : *names)
    trials.push_back(trial_of({&*std::ranges::find(record_.command->variants, name, &CommandVariant::name), ""}));
  return trials;
}

std::vector<SweepTrialAndMeasurement> CommandSweepBackend::next(std::span<const SweepTrialAndMeasurement> tried) {
  if (auto trials = chosen(tried)) return std::move(*trials);
  const CommandVariantOrderer order(settings_.sweep.variants, settings_.native, record_.budget_bytes, settings_.goal);
  std::vector<SweepTrialAndMeasurement> trials;
  if (tried.empty())
    for (const VariantWithOrderReason& placed : order.first()) trials.push_back(trial_of(placed));
  if (combined_ || (tried.empty() && !settings_.dry_run)) return trials;
  combined_ = true;
  VariantCombinationsToRunAndSkip combinations = order.combined(tried);
  for (VariantWithOrderReason& placed : combinations.run) {
    if (settings_.dry_run) placed.why = "behind the single changes, by what they show";
    trials.push_back(trial_of(placed));
  }
  std::ranges::move(combinations.skipped, std::back_inserter(record_.command->skipped));
  return trials;
}

SweepTrialAndMeasurement CommandSweepBackend::trial_of(const VariantWithOrderReason& placed) const {
  SweepTrialAndMeasurement trial;
  trial.spec.strategy = placed.variant->name;
  trial.spec.key = key(*placed.variant);
  if (settings_.dry_run && !placed.why.empty()) trial.spec.notes = {placed.why};
  return trial;
}

const CommandVariant& CommandSweepBackend::variant(const SweepTrialAndMeasurement& trial) const {
  return *std::ranges::find(record_.command->variants, trial.spec.strategy, &CommandVariant::name);
}

// Hashes everything that makes another trial: words, files that they name, program, steps, environment, machine.
std::string CommandSweepBackend::key(const CommandVariant& variant) const {
  nlohmann::json files = nlohmann::json::array();
  for (const std::string& word : variant.command) files.push_back(hash_of_file_in(word));
  const std::string program = find_program(variant.command.front());
  const CommandSweepSettingsAndVariants& sweep = settings_.sweep;
  nlohmann::json key = {{"name", variant.name},
                        {"command", variant.command},
                        {"file", variant.file_text},
                        {"files", files},
                        {"program", program},
                        {"program_file", hash_if_small(program)},
                        {"steps", {sweep.warmup, sweep.steps}},
                        {"memory_cap", sweep.memory_cap_bytes},
                        {"folder", fs::current_path().string()},
                        {"environment", environment()},
                        {"machine", machine(device())},
                        {"version", MEMTUNE_VERSION}};
  if (variant.planned) key["plan"] = without_comments(variant.plan_text);
  return hash_hex(key.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Writes the files before every start: the folder of an earlier sweep may have other files of these names.
void CommandSweepBackend::write_files(const CommandVariant& started, const fs::path& folder) const {
  if (started.planned) write_file(folder / kPlanFile, started.plan_text, directory_.files());
  if (started.file_name.empty()) return;
  const fs::path file = folder / config_file(started);
  make_folders(file.parent_path(), directory_.files());
  write_file(file, started.file_text, directory_.files());
}

// A new folder for a start, if the command has the word for it. "": it has not.
std::string CommandSweepBackend::own_folder(const CommandVariant& started, const fs::path& folder) const {
  if (with_paths(started, "", "") == with_paths(started, "")) return "";
  for (int start = 1;; ++start)
    if (const fs::path own = folder / ("start-" + std::to_string(start)); make_folders(own, directory_.files()))
      return own.string();
}

TrialMeasurementSavesAndNotes CommandSweepBackend::measure(const SweepTrialAndMeasurement& trial, bool first,
                                                           std::optional<std::chrono::milliseconds> left) {
  const CommandVariant& started = variant(trial);
  write_files(started, directory_ / trial.spec.folder);
  attach::CommandSettings command;
  command.name = trial.spec.strategy;
  command.folder = fs::absolute(directory_ / trial.spec.folder).lexically_normal();
  const std::string own = own_folder(started, command.folder);
  command.command = with_paths(started, command.folder.string(), own);
  if (started.planned) command.plan = command.folder / kPlanFile;
  command.steps = {settings_.sweep.warmup, settings_.sweep.steps, first ? command.steps.traced : 0};
  command.log = first ? "log.txt" : "round.txt";
  command.limit = settings_.limit;
  command.whole_limit = left;
  command.memory_cap_bytes = settings_.sweep.memory_cap_bytes;
  command.device_bytes = largest_gpu_bytes();
  command.records = settings_.records;
  command.files = &directory_.files();
  command.progress = [this](const attach::CommandProgress& now) { listener_.phase(phase_of(now)); };
  if (settings_.show) command.output = [this](std::string_view text) { listener_.printed(text); };
  std::string& allocator = allocators_[trial.spec.key];
  if (allocator.empty()) allocator = trial.measurement.allocator;
  command.allocator = allocator;
  attach::MeasuredTrainingCommandResult result = attach::measure_command(command);
  const bool again = settings_.records.empty() && allocator.empty() && may_expand_segments();
  if (result.row.measurement.fragmented && again) {
    command.allocator = allocator = kExpandableSegments;
    result = attach::measure_command(command);
    if (result::usable(result.row.measurement))
      result.notes.push_back("it ran out of device memory that was free in pieces, and was measured again with " +
                             allocator_environment(allocator) + ": it needs that in its environment");
  }
  result.row.measurement.allocator = allocator;
  // `found`: the trainer that the process had loaded, unless the user named one.
  const auto words = [&](const std::string& found) {
    const std::string& trainer = settings_.sweep.trainer.empty() ? found : settings_.sweep.trainer;
    return trainer::remedy_words({command.command, trainer, started.file_text, started.file_name});
  };
  if (std::optional<result::OutOfMemoryBreakdown>& oom = result.row.measurement.oom) oom->words = words(oom->trainer);
  if (std::optional<result::TrainingPhaseTimeShares>& shares = result.row.measurement.time_shares)
    shares->words = words(shares->trainer);
  const result::TrialMeasurement& measured = result.row.measurement;
  worked_ |= result::usable(measured);
  if (worked_ && own.empty() && measured.outcome == result::TrialOutcome::error && measured.loss.empty())
    result.notes.emplace_back(
        "it failed before its first step and an earlier start worked: if files of that start are in its way, {folder} "
        "in "
        "the command is a new folder for each start");
  return {std::move(result.row.measurement), std::move(result.row.saves), std::move(result.notes), result.torch};
}

SweepRecordAndReport sweep_commands(const CommandSweepSettings& settings, SweepListener& listener) {
  for (const CommandVariant& variant : settings.sweep.variants) check_program(variant.command);
  const process::InterruptScope interrupts;
  LockedRunDirectory open(settings.directory, files_of(settings));
  SweepRecordAndReport result;
  CommandSweepBackend commands(settings, listener, open.directory(), result.record);
  result.interrupted = !SweepLoop(settings, listener, open, commands, result.record).run();
  if (!settings.dry_run) result.report = make_report(open.directory(), result.record);
  return result;
}

}  // namespace memtune::sweep
