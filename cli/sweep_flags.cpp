#include "cli/sweep_flags.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/command_flags.h"
#include "cli/flags.h"
#include "core/base/bounds.h"
#include "core/base/bytes.h"
#include "core/base/device/nvml_memory_and_process_reader.h"
#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/sweep/proposals/batch_proposer.h"
#include "core/sweep/proposals/largest_batch.h"
#include "core/sweep/proposals/plan_proposer.h"

namespace memtune::cli {
namespace {

constexpr int64_t kKeepLast = 2;            // saved states
constexpr int64_t kMaxSamples = 1'000'000;  // per step
constexpr int64_t kMax = kMaxCount;
constexpr int kEmulatedRounds = 1;  // more would repeat times that say nothing about a GPU

// A list of the profile of --sweep; without --sweep, --strategy and --plan: of the default profile.
std::vector<std::string> of_profile(const SweepFlags& flags, const char* list) {
  if (flags.sweep.empty() && (!flags.strategies.empty() || !flags.plans.empty())) return {};
  const auto& profile = find_profile("sweeps", flags.sweep.empty() ? "default" : flags.sweep);
  return parse_json(profile.json).value(list, std::vector<std::string>());
}

// --sweep, then --strategy.
std::vector<std::string> strategies(const SweepFlags& flags) {
  std::vector<std::string> specs = of_profile(flags, "strategies");
  for (const std::string& text : flags.strategies) {
    for (const std::string& spec : split(text, ';')) specs.push_back(trim(spec));
  }
  const std::string& own = flags.own.strategy;
  if (!own.empty() && std::ranges::count(specs, own) == 0) specs.push_back(own);
  return specs;
}

using Modes = std::vector<std::string>;

// The given save modes; all if none is given.
Modes save_modes(const SweepFlags& flags) {
  for (const auto& [flag, value] : {std::pair("--mtbf", flags.mtbf), std::pair("--keep-last", flags.keep_last)})
    if (!value.empty() && !flags.measure_saves)
      throw UsageError(std::string(flag) + " is about saves: it goes with --saves");
  if (!flags.measure_saves || flags.saves.empty()) return flags.measure_saves ? kSaveModes : Modes();
  Modes modes;
  for (const std::string& mode : split(flags.saves, ','))
    modes.push_back(choice_flag("--saves", trim(mode), kSaveModes));
  return modes;
}

bool finds_batch(const SweepFlags& flags) { return flags.model.batches == std::vector<std::string>{"auto"}; }

// With a list, no plan is looked for. Without a list, a budget asks for the best plan.
bool finds_plan(const SweepFlags& flags) {
  const bool lists = !flags.strategies.empty() || !flags.plans.empty() || !flags.sweep.empty();
  const bool smallest =
      result::parse_goal(flags.goal) == result::RecommendationGoal::memory;  // strategies need less than any budget
  return !lists && !smallest && !flags.budget.empty();
}

// Batch and plan are looked for together.
bool finds_both(const SweepFlags& flags) { return finds_batch(flags) && finds_plan(flags); }

// Only batches that divide the samples per step are tried.
void set_global_batch(const SweepFlags& flags, sweep::EngineSweepSettings& settings) {
  if (flags.global_batch.empty()) {
    if (finds_batch(flags) && !finds_both(flags))
      throw UsageError(
          "--batch auto needs --global-batch N, the samples of a step, and finds the largest batch that fits; with "
          "--budget and no list of strategies it finds the batch and the plan with the most samples a second");
    return;
  }
  if (settings.request.training.accumulate > 1)
    throw UsageError(
        "--global-batch and --accumulate exclude each other: the batch sets how many micro-batches a step has");
  settings.global_batch = integer_flag("--global-batch", flags.global_batch, 1, kMaxSamples);
  if (finds_both(flags)) settings.batches = {sweep::first_recorded({settings.global_batch, 1})};
  if (finds_batch(flags) && !finds_both(flags)) settings.batches = sweep::divisors(settings.global_batch);
  if (settings.batches.empty()) throw UsageError("--global-batch goes with --batch");
  for (const int64_t batch : settings.batches)
    if (settings.global_batch % batch != 0)
      throw UsageError("--global-batch " + flags.global_batch + " is no multiple of the batch " +
                       std::to_string(batch));
}

// "auto": what the GPU has free now.
int64_t budget_flag(const SweepFlags& flags) {
  if (flags.budget.empty()) return 0;
  if (flags.budget != "auto") return bytes_flag("--budget", flags.budget);
  const std::string& device = flags.model.device;
  const auto free = device == "cpu"
                        ? std::nullopt
                        : device::NvmlMemoryAndProcessReader().free_bytes(device.empty() ? "cuda:0" : device);
  if (!free || *free == 0)
    throw UsageError(
        "--budget auto is what a GPU has free, and no NVIDIA driver tells that here: give a size, as 24GiB");
  return *free;
}

// Flags that sweeps of models and of commands share.
void read_loop(const SweepFlags& flags, sweep::CommonSweepSettings& settings) {
  settings.budget_bytes = budget_flag(flags);
  settings.goal = result::parse_goal(flags.goal);
  if (!flags.rounds.empty()) settings.rounds = static_cast<int>(integer_flag("--rounds", flags.rounds, 1, 1000));
  if (!flags.time_limit.empty()) settings.time_limit = duration_flag("--time-limit", flags.time_limit);
  settings.reuse = flags.retry ? sweep::EarlierTrialReusePolicy::worked : sweep::EarlierTrialReusePolicy::finished;
  settings.dry_run = flags.dry_run;
}

// The strategies are the same with any attention, so they are listed on a machine without a GPU too.
void list_without_gpu(ModelFlags& model, std::vector<std::string>& notes) {
  std::vector<std::string> ignored;
  if (model.attention != "flash-varlen" || choose_device(model.device, ignored) != "cpu") return;
  model.attention.clear();
  model.pack = false;  // a mask of the packed row would take memory and time
  notes.emplace_back("--attention flash-varlen needs a GPU: its trials are listed here, and cannot be run");
}

int64_t budget(const sweep::EngineSweepSettings& settings) {
  return settings.budget_bytes > 0 ? settings.budget_bytes : settings.request.training.memory_cap_bytes;
}

}  // namespace

AnswerFlags answer_flags(const SweepFlags& flags) {
  return {flags.model.out, flags.json, flags.csv, flags.model.console};
}

sweep::EngineSweepSettings sweep_settings(const SweepFlags& flags) {
  // First checks what needs no model, to report a typo before a big file is read.
  check_answer(answer_flags(flags));
  for (const auto& [flag, given] :
       {std::pair("--try", !flags.tries.empty()), std::pair("--allow", !flags.allowed.empty()),
        std::pair("--like", !flags.like.empty())})
    if (given) throw UsageError(std::string(flag) + " is for training commands: it goes with -- and a command");
  const std::vector<std::string> specs = strategies(flags);
  const std::vector<plan::HandWrittenPlanFile> plans(flags.plans.begin(), flags.plans.end());
  sweep::CommonSweepSettings loop;
  read_loop(flags, loop);
  const Modes modes = save_modes(flags);
  const double mtbf_s =
      flags.mtbf.empty() ? 0 : std::chrono::duration<double>(duration_flag("--mtbf", flags.mtbf)).count();
  const int64_t keep_last = flags.keep_last.empty() ? kKeepLast : integer_flag("--keep-last", flags.keep_last, 0, kMax);
  ModelFlags model = flags.model;
  if (finds_batch(flags)) model.batches.clear();
  if (finds_both(flags)) model.batches = {"2"};  // any batch: refuses models whose batch is fixed
  std::vector<std::string> notes = flags.own.notes;
  if (flags.dry_run) list_without_gpu(model, notes);
  sweep::EngineSweepSettings settings = model.settings(loop);
  if (flags.rounds.empty() && settings.request.training.device == "cpu") settings.rounds = kEmulatedRounds;
  settings.finds_batch = finds_both(flags);
  set_global_batch(flags, settings);
  settings.strategies = specs;
  settings.fallback = of_profile(flags, "fallback");
  settings.own_config = flags.own.name;
  settings.own_strategy = flags.own.strategy;
  settings.plans = plans;
  settings.save_modes = modes;
  settings.mtbf_s = mtbf_s;
  settings.keep_last = keep_last;
  check_ranks(settings, finds_batch(flags));
  settings.notes.insert(settings.notes.begin(), notes.begin(), notes.end());
  return settings;
}

bool plans_for_command(const SweepFlags& flags) {
  const bool of_all = flags.all_settings || !flags.tries.empty() || !flags.allowed.empty() || !flags.like.empty();
  return !of_all && (!flags.model.model.empty() || (!flags.trainer.empty() && !flags.config.empty()));
}

// Settings of memtune's own trials, in a subfolder of the command's run. None, with a note, if the config does not
// define enough. Throws UsageError if a model was named.
std::optional<sweep::EngineSweepSettings> native_settings(SweepFlags& flags, const std::vector<std::string>& command,
                                                          CLI::App& app, std::vector<std::string>& notes) {
  const bool asked = !flags.model.model.empty();
  try {
    if (!flags.trainer.empty())
      flags.own = take_trainer_config(app, flags.trainer, flags.config, flags.model.text_only, command);
    if (flags.model.batches.size() > 1 || flags.model.sequences.size() > 1 || finds_batch(flags))
      throw UsageError("--batch and --seq of a command have one value: what it trains");
    sweep::EngineSweepSettings settings = sweep_settings(flags);
    settings.directory /= "native";
    return settings;
  } catch (const UsageError& error) {
    if (asked) throw;
    notes.push_back("all settings are tried, and nothing is planned: " + std::string(error.what()));
    return {};
  }
}

CommandSweepFlags command_sweep(SweepFlags& flags, const std::vector<std::string>& command, CLI::App& app) {
  const RunFolder folder(flags.model, title_of(command),
                         {{"command", command},
                          {"tries", flags.tries},
                          {"trainer", flags.trainer},
                          {"config", flags.config},
                          {"allowed", flags.allowed},
                          {"all_settings", flags.all_settings},
                          {"model", flags.model.model},
                          {"budget", flags.budget},
                          {"goal", flags.goal},
                          {"memory_cap", flags.model.memory_cap},
                          {"steps", {flags.model.warmup, flags.model.steps}}});
  flags.model.out = folder.path();
  CommandSweepFlags sweep;
  sweep.folder = folder;
  sweep.command = command;
  sweep.tries = flags.tries;
  sweep.trainer = flags.trainer;
  sweep.config = flags.config;
  sweep.like = flags.like;
  sweep.allowed = flags.allowed;
  sweep.answer = answer_flags(flags);
  sweep.settings = command_settings(flags.model, command);
  folder.place(sweep.settings);
  read_loop(flags, sweep.settings);
  sweep.plan_asked = !flags.model.model.empty();
  if (plans_for_command(flags)) sweep.native = native_settings(flags, command, app, sweep.settings.notes);
  return sweep;
}

sweep::TrialProposerFactory proposer(const SweepFlags& flags, const sweep::EngineSweepSettings& settings) {
  if (finds_batch(flags) && !finds_both(flags)) return sweep::propose_largest_batches(budget(settings));
  if (!finds_plan(flags)) return sweep::propose_all;
  const plan::TrainingSettings& training = settings.request.training;
  const int64_t cap = training.memory_cap_bytes;
  const int64_t limit = cap > 0 ? std::min(cap, settings.budget_bytes) : settings.budget_bytes;
  const planner::PlanMemoryBudgets limits{limit, training.host_budget_bytes, training.disk_budget_bytes};
  const bool disk = !training.scratch.empty();
  if (finds_both(flags)) return sweep::propose_batches(limits, {settings.global_batch, training.accumulate}, disk);
  return sweep::propose_plans(limits, disk, settings.own_strategy);
}

std::string decided_later(const SweepFlags& flags, const sweep::EngineSweepSettings& settings) {
  if (!finds_plan(flags)) return "";
  const std::string budget = format_bytes(settings.budget_bytes);
  if (finds_both(flags))
    return "# then none at a larger batch, and the batches that are predicted to give the most samples per second "
           "under " +
           budget + ",\n#   each with its best plan\n";
  return "# then, unless none fits " + budget +
         ": a plan for it, computed from the costs of a step of none, and the strategies that are predicted to\n#   "
         "come "
         "near it, of\n#   " +
         join(settings.strategies, ", ") + "\n";
}

}  // namespace memtune::cli
