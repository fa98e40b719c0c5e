#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/command_sweep.h"
#include "cli/finished_run.h"
#include "cli/flags.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "cli/progress.h"
#include "cli/sweep_answer.h"
#include "cli/trainer_config.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/profile.h"
#include "core/config/vocabulary.h"
#include "core/sweep/inspection.h"
#include "core/sweep/largest_batch.h"
#include "core/sweep/plan_proposer.h"
#include "core/trainer/trainer.h"

namespace memtune::cli {
namespace {

constexpr char kDescription[] =
    R"(Train a few steps under each strategy, or of each variant of a command, measure, and recommend one.

Examples:
  memtune sweep
  memtune sweep --model path/to/llama --batch 4 --seq 4096 --dtype bf16 --budget 16GiB
  memtune sweep --model model.pt --input 'tokens:int64[4,4096]<32000' --loss next_token --budget 16GiB
  memtune sweep --model resnet.pt --input 'x:float32[32,3,224,224]' --loss cross_entropy --json -
  memtune sweep --strategy none --strategy 'checkpoint:full,inputs=host' --batch 1,2,4
  memtune sweep --strategy 'none; checkpoint:cheap+offload:stream,fraction=0.4' --plan mine.json
  memtune sweep --model small --device cpu --memory-cap 200MiB
  memtune sweep --model small --saves --mtbf 12h         how to save the training's state, and how often
  memtune sweep --try 'checkpointing=True;False' -- python train.py --gradient_checkpointing {checkpointing}
  memtune sweep --trainer axolotl --config mine.yaml     the model, the batch and how it is trained are in it
  memtune sweep --trainer axolotl --config mine.yaml -- axolotl train {config}
  memtune sweep --budget 40GiB --time-limit 15m --try 'batch=8;16' -- torchrun --nproc-per-node 2 train.py --batch {batch}

With -- the words behind it are a training command that is not memtune's. It is started once for each combination of
--try's values, which stand for {name} in it, or for each memory setting of --trainer, as a config made from your own
that {config} is the path of (without --config as words for {args}); measured as memtune profile does it, --rounds
times in turns. The first values of all, or your own config, are the variant that the others are compared with; one
whose first losses are others is flagged, and not recommended. Of the flags --try, --trainer, --config, --allow, --like, --rounds, --steps, --warmup, --timeout, --time-limit, --budget, --goal,
--memory-cap, --retry, --dry-run, --out, --json, --csv, -q and --no-color go with it.

The same command again goes on where a sweep was stopped. Exit codes: 0 done, 1 no trial worked or none fits, 2
usage, 130 stopped.)";

constexpr char kDefaultOut[] = "./memtune-run";
constexpr int64_t kKeepLast = 2;             // saved states
constexpr int64_t kMostSamples = 1'000'000;  // a step
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Of the flags, those that a command behind "--" has a use for.
const std::vector<std::string> kOfCommands = {"--try",    "--trainer", "--config",     "--allow",   "--like",
                                              "--rounds", "--steps",   "--warmup",     "--timeout", "--time-limit",
                                              "--budget", "--goal",    "--memory-cap", "--retry",   "--dry-run",
                                              "--out",    "--json",    "--csv",        "--quiet",   "--no-color"};

struct SweepFlags {
  ModelFlags model;
  std::vector<std::string> strategies, plans, tries, allowed;
  std::string sweep, global_batch, budget, goal = "throughput", rounds = "3", saves, mtbf, keep_last, json, csv;
  std::string time_limit, trainer, config, like;
  bool retry = false, dry_run = false, measure_saves = false;
  TrainerConfig own;  // of --config without a command
};

// --sweep's, then --strategy's; neither, and no plan: the default profile's.
std::vector<std::string> strategies(const SweepFlags& flags) {
  std::vector<std::string> specs;
  if (!flags.sweep.empty() || (flags.strategies.empty() && flags.plans.empty())) {
    const auto& profile = config::find_profile("sweeps", flags.sweep.empty() ? "default" : flags.sweep);
    specs = parse_json(profile.json).at("strategies").get<std::vector<std::string>>();
  }
  for (const std::string& text : flags.strategies) {
    for (const std::string& spec : split(text, ';')) specs.push_back(trim(spec));
  }
  const std::string& own = flags.own.strategy;
  if (flags.strategies.empty() && !own.empty() && std::ranges::count(specs, own) == 0) specs.push_back(own);
  return specs;
}

using Modes = std::vector<std::string>;

// As they were given; without any all that there are.
Modes save_modes(const SweepFlags& flags) {
  for (const auto& [flag, value] : {std::pair("--mtbf", flags.mtbf), std::pair("--keep-last", flags.keep_last)})
    if (!value.empty() && !flags.measure_saves)
      throw UsageError(std::string(flag) + " is about saves: it goes with --saves");
  if (!flags.measure_saves || flags.saves.empty()) return flags.measure_saves ? config::kSaveModes : Modes();
  Modes modes;
  for (const std::string& mode : split(flags.saves, ','))
    modes.push_back(choice_flag("--saves", trim(mode), config::kSaveModes));
  return modes;
}

bool finds_batch(const SweepFlags& flags) { return flags.model.batches == std::vector<std::string>{"auto"}; }

// The batches that are tried are those that the samples of a step can be made of.
void set_global_batch(const SweepFlags& flags, sweep::SweepSettings& settings) {
  if (flags.global_batch.empty()) {
    if (finds_batch(flags))
      throw UsageError(
          "--batch auto looks for the largest batch of a step that stays what it is: --global-batch N says "
          "how many samples that has");
    return;
  }
  if (settings.request.training.accumulate > 1)
    throw UsageError("--global-batch and --accumulate exclude each other: the batch says how many passes a step has");
  settings.global_batch = integer_flag("--global-batch", flags.global_batch, 1, kMostSamples);
  if (finds_batch(flags)) settings.batches = sweep::divisors(settings.global_batch);
  if (settings.batches.empty()) throw UsageError("--global-batch goes with --batch");
  for (const int64_t batch : settings.batches)
    if (settings.global_batch % batch != 0)
      throw UsageError("--global-batch " + flags.global_batch + " is no multiple of the batch " +
                       std::to_string(batch));
}

AnswerFlags answer_flags(const SweepFlags& flags) {
  return {flags.model.out, flags.json, flags.csv, flags.model.console};
}

// What sweeps of every kind have.
void read_loop(const SweepFlags& flags, sweep::LoopSettings& settings) {
  settings.budget_bytes = flags.budget.empty() ? 0 : bytes_flag("--budget", flags.budget);
  settings.goal = result::parse_goal(flags.goal);
  settings.rounds = static_cast<int>(integer_flag("--rounds", flags.rounds, 1, 1000));
  if (!flags.time_limit.empty()) settings.time_limit = duration_flag("--time-limit", flags.time_limit);
  settings.reuse = flags.retry ? sweep::Reuse::worked : sweep::Reuse::finished;
  settings.dry_run = flags.dry_run;
}

sweep::SweepSettings settings(const SweepFlags& flags) {
  // What needs no model first: a typo is told before a big file is read.
  check_answer(answer_flags(flags));
  for (const auto& [flag, given] :
       {std::pair("--try", !flags.tries.empty()), std::pair("--allow", !flags.allowed.empty()),
        std::pair("--like", !flags.like.empty())})
    if (given)
      throw UsageError(std::string(flag) + " is about a training command: it goes with -- and the command behind that");
  const std::vector<std::string> specs = strategies(flags);
  const std::vector<plan::PlanFile> plans(flags.plans.begin(), flags.plans.end());
  sweep::LoopSettings loop;
  read_loop(flags, loop);
  const Modes modes = save_modes(flags);
  const double mtbf_s =
      flags.mtbf.empty() ? 0 : std::chrono::duration<double>(duration_flag("--mtbf", flags.mtbf)).count();
  const int64_t keep_last =
      flags.keep_last.empty() ? kKeepLast : integer_flag("--keep-last", flags.keep_last, 0, kMost);
  ModelFlags model = flags.model;
  if (finds_batch(flags)) model.batches.clear();
  sweep::SweepSettings settings = model.settings(loop);
  set_global_batch(flags, settings);
  settings.strategies = specs;
  settings.plans = plans;
  settings.save_modes = modes;
  settings.mtbf_s = mtbf_s;
  settings.keep_last = keep_last;
  settings.notes.insert(settings.notes.begin(), flags.own.notes.begin(), flags.own.notes.end());
  return settings;
}

CommandSweepFlags command_sweep(const SweepFlags& flags, const std::vector<std::string>& command) {
  CommandSweepFlags sweep;
  sweep.command = command;
  sweep.tries = flags.tries;
  sweep.trainer = flags.trainer;
  sweep.config = flags.config;
  sweep.like = flags.like;
  sweep.allowed = flags.allowed;
  sweep.answer = answer_flags(flags);
  sweep.settings = command_settings(flags.model, command);
  read_loop(flags, sweep.settings);
  return sweep;
}

int64_t budget(const sweep::SweepSettings& settings) {
  return settings.budget_bytes > 0 ? settings.budget_bytes : settings.request.training.memory_cap_bytes;
}

// A list is a list; a budget without one asks for the best plan.
bool finds_plan(const SweepFlags& flags, const sweep::SweepSettings& settings) {
  const bool lists = !flags.strategies.empty() || !flags.plans.empty() || !flags.sweep.empty();
  const bool smallest = settings.goal == result::Goal::memory;  // strategies take less than any budget asks for
  return !finds_batch(flags) && !lists && !smallest && settings.budget_bytes > 0;
}

sweep::MakeProposer proposer(const SweepFlags& flags, const sweep::SweepSettings& settings) {
  if (finds_batch(flags)) return sweep::propose_largest_batches(budget(settings));
  if (!finds_plan(flags, settings)) return sweep::propose_all;
  const int64_t cap = settings.request.training.memory_cap_bytes;
  const int64_t limit = cap > 0 ? std::min(cap, settings.budget_bytes) : settings.budget_bytes;
  return sweep::propose_plans(limit, settings.request.training.host_budget_bytes);
}

// What a dry run cannot list: "" where it lists all.
std::string decided_later(const SweepFlags& flags, const sweep::SweepSettings& settings) {
  if (!finds_plan(flags, settings)) return "";
  return "# then, unless none keeps " + format_bytes(settings.budget_bytes) +
         ": a plan for it, made from what a step of none costs, and those that come near it on paper of\n#   " +
         join(settings.strategies, ", ") + "\n";
}

// The first trainer that there are keys for; "": none.
std::string trainer_for(const report::Report& report) {
  for (const std::string& trainer : trainer::trainers()) try {
      trainer::export_config(trainer, find_row(report, ""), report);
      return trainer;
    } catch (const UsageError&) {
    }
  return "";
}

// When no trial worked, or none within the budget: what would let one.
std::string way_out(const SweepFlags& flags, const report::Report& report) {
  using result::Outcome;
  const auto all_ended_in = [&](Outcome outcome) {
    return !report.rows.empty() &&
           std::ranges::all_of(report.rows, [&](const result::Row& row) { return row.measurement.outcome == outcome; });
  };
  if (!report.recommendation.strategy.empty()) return "a larger --budget, or a smaller --batch or --seq";
  if (all_ended_in(Outcome::device_oom)) return "a larger --memory-cap or device, or a smaller --batch or --seq";
  if (all_ended_in(Outcome::timeout)) return "a longer --timeout (now " + flags.model.timeout + ")";
  return "memtune doctor; logs are in " + flags.model.out + "/trials/*/log.txt";
}

void say_next(const SweepFlags& flags, const sweep::SweepResult& result) {
  const std::string run = flags.model.out == kDefaultOut ? "" : " " + flags.model.out;
  const ConsoleFlags& console = flags.model.console;
  if (result.interrupted) return say(console, "stopped; the same command again goes on from here");
  if (!result.report.recommendation.fits) return say(console, "next: " + way_out(flags, result.report));
  const std::string trainer = flags.trainer.empty() ? trainer_for(result.report) : flags.trainer;
  const std::string into = flags.config.empty() ? "" : " --into " + flags.config;
  say(console, "next: " + (trainer.empty() ? "" : "memtune export" + run + " --trainer " + trainer + into + ", or ") +
                   "memtune view" + run);
}

// "10 trials in 3 rounds; parameters, all gradients and what adamw keeps take 8.2 GiB, values that none keeps for
// backward 4.1 GiB".
std::string size_text(const sweep::SweepRecord& record, int rounds) {
  const config::TrainingSettings& training = record.request.training;
  int64_t saved = 0;  // where it was measured
  for (const config::OpFacts& op : record.facts.program.ops) saved += saved_bytes(op);
  const int64_t states = sweep::state_bytes(training, record.facts.program);
  std::string text = std::to_string(record.trials.size()) + " trials in " + std::to_string(rounds) +
                     " rounds; parameters, all gradients and what " + training.optimizer + " keeps take " +
                     format_bytes(states);
  if (saved > 0) text += ", values that none keeps for backward " + format_bytes(saved);
  const int64_t memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (training.device == "cpu" && states + saved > memory)
    text += ": more than the " + format_bytes(memory) + " of this machine";
  return text;
}

// What --saves runs besides, and the room that it takes.
std::string saving_text(const sweep::SweepSettings& settings, const sweep::SweepRecord& record) {
  if (settings.save_modes.empty()) return "";
  const config::ProgramFacts& facts = record.facts.program;
  const int64_t state_bytes = sweep::state_bytes(record.request.training, facts) - facts.parameter_bytes;
  return "; then saves are measured under the recommended one (" + join(settings.save_modes, ", ") +
         "), which takes room for two states of some " + format_bytes(state_bytes) + " each in " +
         settings.directory.string();
}

int run_command(const SweepFlags& flags) {
  Progress progress(flags.model.console);
  const sweep::SweepSettings sweep_settings = settings(flags);
  const sweep::SweepResult result = sweep::run_sweep(sweep_settings, progress, proposer(flags, sweep_settings));
  progress.clear();
  if (flags.dry_run && !result.interrupted) {
    list_trials(result.record, decided_later(flags, sweep_settings));
    say(flags.model.console,
        size_text(result.record, sweep_settings.rounds) + saving_text(sweep_settings, result.record));
    say(flags.model.console, "next: the same without --dry-run");
    return kDone;
  }
  if (!result.report.rows.empty() || !result.interrupted) write_answer(answer_flags(flags), result.report);
  say_next(flags, result);
  if (result.interrupted) return kInterrupted;
  return result.report.recommendation.fits ? kDone : kFailed;
}

}  // namespace

void add_sweep(CLI::App& app, Action& action, const CommandWordsBehind& behind) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = app.add_subcommand("sweep", kDescription);
  flags->model.add_to(*command, kDefaultOut);
  add_list(*command, "--batch", flags->model.batches, "batch sizes to try: 1,2,4; auto: each strategy's largest")
      ->type_name("LIST");
  command->add_option("--global-batch", flags->global_batch, "samples a step, made up by passes of a batch each")
      ->type_name("N");
  add_list(*command, "--seq", flags->model.sequences, "sequence lengths to try: 1024,4096")->type_name("LIST");
  offer(add_list(*command, "--strategy", flags->strategies, "what to try; repeat, or separate by ';'"),
        strategy_words())
      ->type_name("SPEC");
  add_list(*command, "--plan", flags->plans, "a plan that you wrote, as one more strategy; repeat")->type_name("FILE");
  const std::vector<std::string> profiles = profile_names("sweeps");
  offer(command->add_option("--sweep", flags->sweep, "strategies of a profile: " + join(profiles, ", ")), profiles)
      ->type_name("PROFILE");
  add_list(*command, "--try", flags->tries, "values in turn for {name} of the command behind --: 'batch=4;8'; repeat")
      ->type_name("NAME=VALUES");
  const std::vector<std::string> trainers = profile_names("trainers");
  offer(command->add_option(
            "--trainer", flags->trainer,
            "whose --config it is; with a command behind --: all its memory settings: " + join(trainers, ", ")),
        trainers)
      ->type_name("NAME");
  command
      ->add_option("--config", flags->config,
                   "your config of that trainer: says the model, the batch and how it is trained; with a command each "
                   "variant's takes the place of {config}")
      ->type_name("FILE");
  offer(add_list(*command, "--allow", flags->allowed, "what of training --trainer may change: optimizer"), kMayChange)
      ->type_name("WHAT");
  command
      ->add_option("--like", flags->like,
                   "folder of a sweep of the model, whose figures say which settings to try first")
      ->type_name("DIR");
  command->add_option("--budget", flags->budget, "device memory that the answer may use: 16GiB")->type_name("BYTES");
  offer(command->add_option("--goal", flags->goal, "throughput or memory (default: throughput)"),
        {"throughput", "memory"})
      ->type_name("GOAL");
  command->add_option("--rounds", flags->rounds, "turns that each trial takes, --steps measured in each (default: 3)")
      ->type_name("N");
  command
      ->add_option("--time-limit", flags->time_limit,
                   "of the whole sweep: 15m; what has no room in it is left for the same command again")
      ->type_name("TIME");
  CLI::Option* saves = offer(command->add_option("--saves", flags->saves,
                                                 "measure saving the training's state under the recommended plan: " +
                                                     join(config::kSaveModes, ",") + " (default: all of them)"),
                             config::kSaveModes)
                           ->expected(0, 1)
                           ->type_name("[MODES]");
  command->add_option("--mtbf", flags->mtbf, "mean time between failures of the whole job: 12h; how often to save")
      ->type_name("TIME");
  command->add_option("--keep-last", flags->keep_last, "saved states to keep, for export; 0: all (default: 2)")
      ->type_name("N");
  command->add_flag("--retry", flags->retry, "run failed trials of an earlier sweep again");
  command->add_flag("--dry-run", flags->dry_run, "list the trials and stop");
  command->add_option("--json", flags->json, "write the answer as JSON; - is stdout")->type_name("FILE|-");
  command->add_option("--csv", flags->csv, "write the answer as CSV; - is stdout")->type_name("FILE|-");
  put_under(kModelOptions, *command, {"--batch", "--global-batch", "--seq"});
  put_under(kTrials, *command,
            {"--strategy", "--plan", "--sweep", "--try", "--trainer", "--config", "--allow", "--like", "--retry",
             "--dry-run"});
  put_under(kMeasuring, *command, {"--rounds", "--time-limit", "--saves"});
  put_under(kAnswer, *command, {"--budget", "--goal", "--mtbf", "--keep-last", "--json", "--csv"});
  command->footer("-- COMMAND...");
  command->callback([flags, command, saves, &action, behind] {
    flags->measure_saves = saves->count() > 0;
    if (behind) check_flags_of_command(*command, kOfCommands);
    if (behind)
      action = [flags, behind] { return sweep_command(command_sweep(*flags, *behind)); };
    else
      action = [flags, command] {
        if (!flags->trainer.empty() || !flags->config.empty())
          flags->own = take_trainer_config(*command, flags->trainer, flags->config);
        return run_command(*flags);
      };
  });
}

}  // namespace memtune::cli
