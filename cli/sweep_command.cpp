#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/app.h"
#include "cli/launched.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "cli/progress.h"
#include "cli/run_folder.h"
#include "cli/sweep_answer.h"
#include "cli/sweep_flags.h"
#include "cli/trainer_config.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/answer/trainer/rendered_python_plan.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/layout.h"
#include "core/base/shell_line.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/sweep/loop/inspection.h"

namespace memtune::cli {
namespace {

constexpr char kSweepDescription[] =
    R"(Train a few steps under each memory strategy, or each variant of a training command, and recommend one.

Examples:
  memtune sweep --model path/to/llama --batch 4 --seq 4096 --budget 16GiB
  memtune sweep --trainer axolotl --config mine.yaml
  memtune sweep --try 'batch=8;16' -- python train.py --batch {batch}
  memtune sweep --trainer axolotl --config mine.yaml -- axolotl train {config}
  memtune sweep --model model.pt --input 'tokens:int64[4,4096]<32000' --loss next_token --budget 16GiB
  memtune sweep --model resnet.pt --input 'x:float32[32,3,224,224]' --loss cross_entropy --json -
  memtune sweep --strategy none --strategy 'checkpoint:full,inputs=host' --batch 1,2,4
  memtune sweep --strategy 'none; checkpoint:cheap+offload:stream,fraction=0.4' --plan mine.json
  memtune sweep --model small --device cpu --memory-cap 36MiB
  memtune sweep --model small --saves --mtbf 12h         how to save the training's state, and how often
  memtune sweep --budget 40GiB --time-limit 15m --try 'batch=8;16' -- torchrun --nproc-per-node 2 train.py --batch {batch}

A training command of yours follows --. memtune starts it once for each variant, --rounds times in turns, and measures
it as memtune profile does. Variants are the combinations of --try's values, which replace {name} in the command, or the
memory settings of --trainer. memtune writes each setting into a config made from --config, and {config} is its path.
Without --config, {args} stands for the settings as arguments. {folder} stands for a new, empty folder at each start. The
first variant, or your own config, is the baseline. A variant with other first losses is marked, and not recommended.

These options apply to a command: --try, --trainer, --config, --all-settings, --allow, --like, --rounds, --steps,
--warmup, --timeout, --time-limit, --budget, --goal, --memory-cap, --show, --retry, --dry-run, --out, --json, --csv, -q
and --no-color.

The same command resumes a stopped sweep. Exit codes: 0 done, 1 no trial worked or none fits, 2 usage, 130 stopped.)";

constexpr char kDefaultOut[] = "./memtune-run";

// The flags that apply to a command after "--".
const std::vector<std::string> kOfCommands = {
    "--try",     "--trainer",    "--config", "--allow",    "--like",         "--rounds",    "--steps",   "--warmup",
    "--timeout", "--time-limit", "--budget", "--goal",     "--memory-cap",   "--retry",     "--dry-run", "--out",
    "--json",    "--csv",        "--quiet",  "--no-color", "--all-settings", "--text-only", "--show"};

// If a plan is wanted too, the flags that define the model it trains.
const std::vector<std::string> kOfPlanned = {"--model",
                                             "--input",
                                             "--inputs",
                                             "--library",
                                             "--trust-model",
                                             "--attention",
                                             "--pack",
                                             "--padding",
                                             "--loss",
                                             "--loss-impl",
                                             "--output",
                                             "--target",
                                             "--optimizer",
                                             "--lr",
                                             "--dtype",
                                             "--autocast",
                                             "--lora",
                                             "--load-in",
                                             "--accumulate",
                                             "--max-grad-norm",
                                             "--seed",
                                             "--blocks",
                                             "--device",
                                             "--batch",
                                             "--seq",
                                             "--host-budget",
                                             "--optimizer-in-backward"};

std::vector<std::string> flags_of_command(const SweepFlags& flags) {
  std::vector<std::string> names = kOfCommands;
  if (plans_for_command(flags)) names.insert(names.end(), kOfPlanned.begin(), kOfPlanned.end());
  return names;
}

// The export command for --trainer.
struct NextExport {
  std::string words;                            // "memtune export --trainer trl"
  std::string changed;                          // "gradient_checkpointing: true -> false"; "": nothing, or no config
  const result::TrialResultRow* row = nullptr;  // the row that the keys amount to
};

// None without --trainer, or if the trainer has no keys for any measured strategy.
std::optional<NextExport> next_export(const SweepFlags& flags, const std::string& run,
                                      const report::Report& report) try {
  if (flags.trainer.empty()) return {};
  trainer::ConfigExportReleasesAndUserConfig settings;
  if (!flags.config.empty()) settings = {{}, read_file(flags.config), flags.config};
  const trainer::ExportedConfig written =
      trainer::export_config(flags.trainer, sweep::find_row(report, ""), report, settings);
  const std::string into = flags.config.empty() ? "" : " --into " + shell_line({flags.config});
  std::vector<std::string> changed;
  for (const trainer::ConfigKeyValueChange& change : written.changed)
    changed.push_back(change.key + ": " + change.before + " -> " + change.after);
  return NextExport{"memtune export" + run + " --trainer " + flags.trainer + into, join(changed, ", "), written.row};
} catch (const UsageError&) {
  return {};
}

std::string figures(const result::TrialResultRow& row) {
  return row.measurement.strategy + ", " + ms_text(row.measurement.step_ms.median) + " at " +
         format_bytes(required_bytes(row));
}

// Advice if no trial worked, or none within the budget.
std::string way_out(const SweepFlags& flags, const report::Report& report) {
  using result::TrialOutcome;
  if (!report.recommendation.strategy.empty()) return "a larger --budget, or a smaller --batch or --seq";
  if (sweep::all_ended_in(report, TrialOutcome::device_oom))
    return "a larger --memory-cap or device, or a smaller --batch or --seq";
  if (sweep::all_ended_in(report, TrialOutcome::timeout)) return "a longer --timeout (now " + flags.model.timeout + ")";
  return "memtune doctor; logs are in " + flags.model.out + "/trials/*/log.txt";
}

void say_next(const SweepFlags& flags, const std::string& run, const sweep::SweepRecordAndReport& result) {
  const ConsoleFlags& console = flags.model.console;
  if (result.interrupted) return say(console, "stopped; run the same command again to continue");
  if (!result.report.recommendation.fits) return say(console, "next: " + way_out(flags, result.report));
  const std::optional<NextExport> keys = next_export(flags, run, result.report);
  const result::TrialResultRow& answer = sweep::find_row(result.report, "");
  if (keys && !keys->changed.empty()) say(console, "change in " + flags.own.name + ": " + keys->changed);
  if (keys && (keys->row == nullptr || keys->row == &answer))
    return say(console, "next: " + keys->words + ", or memtune view" + run);
  // No keys match the answer exactly: print what the keys amount to, and the plan itself.
  if (keys) say(console, "next: " + keys->words + " writes " + figures(*keys->row));
  auto also = [&, first = !keys](const std::string& words) mutable {
    say(console, (std::exchange(first, false) ? "next: " : "  or: ") + words);
  };
  const std::optional<plan::Plan> plan = sweep::read_plan(flags.model.out + "/" + answer.measurement.plan);
  const bool exports = answer.measurement.strategy != "none";
  const bool outside = plan && trainer::offloads_outside_parameters(*plan);
  if (flags.trainer.empty() && exports && !(plan && plan->offloads_states()))
    also("memtune export" + run + " --trainer NAME writes the keys of your trainer");
  if (result.report.blocks > 0 && exports && !outside)
    also("memtune export" + run + " --trainer python -o memtune_plan.py writes " + figures(answer));
  also("memtune view" + run + (outside ? "; no export offloads parameters outside of blocks (outside=host)" : ""));
}

// "10 trials in 3 rounds; parameters, all gradients and the states of adamw take 8.2 GiB, activations of none
// 4.1 GiB".
std::string size_text(const sweep::SweepJsonSettingsFactsAndTrials& record, int rounds) {
  const plan::TrainingSettings& training = record.request.training;
  int64_t saved = 0;  // if it was measured
  for (const plan::ProgramOpFacts& op : record.facts.program.ops) saved += saved_bytes(op);
  const int64_t states = sweep::state_bytes(training, record.facts.program);
  std::string text = std::to_string(record.trials.size()) + " trials in " + std::to_string(rounds) +
                     " rounds; parameters, all gradients and the states of " + training.optimizer + " take " +
                     format_bytes(states);
  if (saved > 0) text += ", activations of none " + format_bytes(saved);
  const int64_t memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (training.device == "cpu" && states + saved > memory)
    text += ": more than the " + format_bytes(memory) + " of this machine";
  return text;
}

// Describes the measurement of --saves and the disk space that it needs.
std::string saving_text(const sweep::EngineSweepSettings& settings,
                        const sweep::SweepJsonSettingsFactsAndTrials& record) {
  if (settings.save_modes.empty()) return "";
  const plan::ProgramFacts& facts = record.facts.program;
  const int64_t state_bytes = sweep::state_bytes(record.request.training, facts) - facts.parameter_bytes;
  return "; then saves are measured under the recommended one (" + join(settings.save_modes, ", ") +
         "), which needs disk space for two states of about " + format_bytes(state_bytes) + " each in " +
         settings.directory.string();
}

int sweep_model(const SweepFlags& flags, const sweep::EngineSweepSettings& settings, RunFolder& folder) {
  Progress progress(flags.model.console, &folder);
  const sweep::SweepRecordAndReport result = sweep::run_sweep(settings, progress, proposer(flags, settings));
  progress.clear();
  folder.finish(result.report, flags.model.console);
  if (flags.dry_run && !result.interrupted) {
    list_trials(result.record, decided_later(flags, settings));
    say(flags.model.console, size_text(result.record, settings.rounds) + saving_text(settings, result.record));
    say(flags.model.console, "next: the same without --dry-run");
    return kDone;
  }
  if (!result.report.rows.empty() || !result.interrupted) write_answer(answer_flags(flags), result.report);
  say_next(flags, folder.argument(), result);
  if (result.interrupted) return kInterrupted;
  return result.report.recommendation.fits ? kDone : kFailed;
}

int run_command(SweepFlags flags) {
  sweep::EngineSweepSettings settings = sweep_settings(flags);
  RunFolder folder(flags.model, settings.model, question_of(settings, flags.plans));
  folder.place(settings);
  flags.model.out = folder.path();
  if (!settings.save_modes.empty())
    refuse_launched(settings.request.training, "--saves is only for ranks that memtune starts itself: use --ranks N");
  return run_launched(settings, flags.model.console,
                      [&](const sweep::EngineSweepSettings& each) { return sweep_model(flags, each, folder); });
}

}  // namespace

void add_sweep(CLI::App& app, Action& action, const CommandWordsBehind& behind) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command = app.add_subcommand("sweep", kSweepDescription);
  flags->model.add_to(*command, kDefaultOut);
  flags->model.ranks.add_to(*command);
  add_list(*command, "--batch", flags->model.batches,
           "batch sizes: 1,2,4; auto: the largest of each strategy, or the best one under --budget")
      ->type_name("LIST");
  command->add_option("--global-batch", flags->global_batch, "samples per step, as micro-batches of --batch each")
      ->type_name("N");
  add_list(*command, "--seq", flags->model.sequences, "sequence lengths: 1024,4096")->type_name("LIST");
  offer(add_list(*command, "--strategy", flags->strategies, "strategy to try; repeat, or separate by ';'"),
        strategy_words())
      ->type_name("SPEC");
  add_list(*command, "--plan", flags->plans, "file with a plan of yours to try; repeat")->type_name("FILE");
  const std::vector<std::string> profiles = profile_names("sweeps");
  offer(command->add_option("--sweep", flags->sweep, "strategies of a profile: " + join(profiles, ", ")), profiles)
      ->type_name("PROFILE");
  add_list(*command, "--try", flags->tries, "values for {name} in the command: 'batch=4;8'; repeat")
      ->type_name("NAME=VALUES");
  const std::vector<std::string> trainers = profile_names("trainers");
  offer(command->add_option("--trainer", flags->trainer,
                            "trainer of --config; with a command: try its memory settings: " + join(trainers, ", ")),
        trainers)
      ->type_name("NAME");
  command
      ->add_option("--config", flags->config,
                   "your config of that trainer: model, batch and training; {config} in a command is a variant of it")
      ->type_name("FILE");
  command->add_flag("--all-settings", flags->all_settings,
                    "with a command and --trainer: run every memory setting, without plans");
  offer(
      add_list(*command, "--allow", flags->allowed,
               "what may change the training: optimizer (of --trainer), or a NAME of --try, whose losses are then not "
               "compared"),
      kMayChange)
      ->type_name("WHAT");
  command->add_option("--like", flags->like, "folder of a sweep of the same model; its figures order the settings")
      ->type_name("DIR");
  command->add_option("--budget", flags->budget, "device memory for training: 16GiB; auto: what the GPU has free")
      ->type_name("BYTES|auto");
  offer(command->add_option("--goal", flags->goal, "throughput or memory (default: throughput)"),
        {"throughput", "memory"})
      ->type_name("GOAL");
  command
      ->add_option("--rounds", flags->rounds,
                   "rounds of measurement; each measures --steps steps of each trial (default: 3, a model on a CPU: 1)")
      ->type_name("N");
  command->add_option("--time-limit", flags->time_limit, "for the whole sweep: 15m; the same command resumes the rest")
      ->type_name("TIME");
  CLI::Option* saves = offer(command->add_option("--saves", flags->saves,
                                                 "measure saves of the training state under the recommended plan: " +
                                                     join(kSaveModes, ",") + " (default: all)"),
                             kSaveModes)
                           ->expected(0, 1)
                           ->type_name("[MODES]");
  command->add_option("--mtbf", flags->mtbf, "mean time between failures of the job, for how often to save: 12h")
      ->type_name("TIME");
  command->add_option("--keep-last", flags->keep_last, "saved states to keep, for export; 0: all (default: 2)")
      ->type_name("N");
  command->add_flag("--retry", flags->retry, "run failed trials of an earlier sweep again");
  command->add_flag("--dry-run", flags->dry_run, "list the trials and stop");
  command->add_option("--json", flags->json, "write the answer as JSON; - is stdout")->type_name("FILE|-");
  command->add_option("--csv", flags->csv, "write the answer as CSV; - is stdout")->type_name("FILE|-");
  add_show(*command, flags->model, behind);
  put_under(kModelOptions, *command, {"--batch", "--global-batch", "--seq"});
  put_under(kTrials, *command,
            {"--strategy", "--plan", "--sweep", "--try", "--trainer", "--config", "--all-settings", "--allow", "--like",
             "--retry", "--dry-run"});
  put_under(kMeasuring, *command, {"--rounds", "--time-limit", "--saves"});
  put_under(kAnswer, *command, {"--budget", "--goal", "--mtbf", "--keep-last", "--json", "--csv"});
  command->footer("-- COMMAND...");
  command->callback([flags, command, saves, &action, behind] {
    flags->measure_saves = saves->count() > 0;
    if (behind) check_flags_of_command(*command, flags_of_command(*flags));
    if (behind)
      action = [flags, command, behind] {
        refuse_worker("a command is measured from outside of it, memtune sweep -- torchrun ...");
        return sweep_command(command_sweep(*flags, *behind, *command));
      };
    else
      action = [flags, command] {
        if (!flags->trainer.empty() || !flags->config.empty())
          flags->own = take_trainer_config(*command, flags->trainer, flags->config, flags->model.text_only);
        return run_command(*flags);
      };
  });
}

}  // namespace memtune::cli
