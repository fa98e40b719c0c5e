#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/command_flags.h"
#include "cli/flags.h"
#include "cli/launched.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "cli/progress.h"
#include "cli/run_folder.h"
#include "core/answer/report/text/json.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/base/error.h"

namespace memtune::cli {
namespace {

constexpr char kProfileDescription[] =
    R"(Measure one strategy, or your own training command.

Examples:
  memtune profile
  memtune profile -- python train.py --config mine.yaml
  memtune profile --steps 10 --json answer.json -- torchrun --nproc-per-node 2 train.py
  memtune profile --model resnet.pt --input 'x:float32[32,3,224,224]' --loss cross_entropy --strategy offload:stream
  memtune report ./memtune-profile --format perfetto -o trace.json

Without --, memtune trains its own copy of --model under a strategy, and keeps the trace.

With --, it starts your command unchanged. The command may be any that trains with PyTorch 2.4 or newer, in one process or
many. memtune observes its optimizer steps from outside. After --warmup and --steps of them it ends the command as
sys.exit() would. Options for a command: --steps, --warmup, --timeout, --memory-cap, --show, --out, --json, -q and
--no-color. Its stdin is empty, and its output goes to trials/1-command/log.txt in the folder of --out, with --show to
stderr too. A step is one optimizer step with all its micro-batches. Of several processes the slowest and the highest peak
count. Two more steps are traced: forward, backward, updates and the model's blocks by name; on CUDA also kernels and
copies; all processes in one timeline. Python must read PYTHONPATH: no -I, -S or -E.)";

// The flags that apply to a command after "--".
const std::vector<std::string> kFlagsOfCommands = {"--steps", "--warmup", "--timeout", "--memory-cap", "--out",
                                                   "--json",  "--show",   "--quiet",   "--no-color"};

struct ProfileFlags {
  ModelFlags model;
  std::string strategy, plan, json;
};

void write_results(const ProfileFlags& flags, report::Report report) {
  sweep::add_findings(sweep::RunDirectory(flags.model.out), report);
  if (!flags.json.empty()) write_output(flags.json, report::to_json_text(report));
  if (flags.json == "-") return;
  report.recommendation = {};  // pointless for one trial
  for (result::TrialResultRow& row : report.rows) row.recommended = row.pareto = false;
  write_output("-", report::table(report, table_style(flags.model.console)));
  for (const result::TrialResultRow& row : report.rows) {
    if (row.measurement.trace.empty()) continue;
    say(flags.model.console, "trace: " + (std::filesystem::path(flags.model.out) / row.measurement.trace).string());
  }
}

// Always runs again, in a single round.
void set_turns(sweep::CommonSweepSettings& settings) {
  settings.rounds = 1;
  settings.reuse = sweep::EarlierTrialReusePolicy::nothing;
}

int finish(const ProfileFlags& flags, const sweep::SweepRecordAndReport& result, RunFolder& folder) {
  folder.finish(result.report, flags.model.console);
  if (!result.report.rows.empty()) write_results(flags, result.report);
  if (result.interrupted) return kInterrupted;
  const bool worked = !result.report.recommendation.strategy.empty();
  say(flags.model.console, worked ? "next: memtune view " + folder.shown()
                                  : "next: memtune doctor; logs are in " + flags.model.out + "/trials/*/log.txt");
  return worked ? kDone : kFailed;
}

int profile_strategy(ProfileFlags flags) {
  if (!flags.strategy.empty() && !flags.plan.empty())
    throw UsageError("--strategy and --plan exclude each other: profile runs one");
  std::vector<std::string> files;
  if (!flags.plan.empty()) files.push_back(flags.plan);
  const std::vector<plan::HandWrittenPlanFile> plans(files.begin(), files.end());
  check_output("--json", flags.json);
  sweep::EngineSweepSettings settings = flags.model.settings();
  set_turns(settings);
  settings.plans = plans;
  if (plans.empty()) settings.strategies = {flags.strategy.empty() ? "none" : flags.strategy};
  RunFolder folder(flags.model, settings.model, question_of(settings, files));
  folder.place(settings);
  flags.model.out = folder.path();
  return run_launched(settings, flags.model.console, [&](const sweep::EngineSweepSettings& each) {
    Progress progress(flags.model.console, &folder);
    const sweep::SweepRecordAndReport result = sweep::run_sweep(each, progress);
    progress.clear();
    return finish(flags, result, folder);
  });
}

// Sweeps one variant, the command as given.
int profile_command(ProfileFlags flags, const std::vector<std::string>& command) {
  if (command.empty()) throw UsageError("no command behind --; memtune profile -- python train.py measures one");
  refuse_worker("a command is measured from outside of it, memtune profile -- torchrun ...");
  check_output("--json", flags.json);
  RunFolder folder(flags.model, title_of(command), {{"command", command}, {"memory_cap", flags.model.memory_cap}});
  flags.model.out = folder.path();
  sweep::CommandSweepSettings settings = command_settings(flags.model, command);
  folder.place(settings);
  set_turns(settings);
  settings.sweep.variants = {{"command", command, "", ""}};
  if (const char* records = std::getenv("MEMTUNE_RECORDS"))
    settings.records = records;  // by memtune.profile() of Python
  Progress progress(flags.model.console, &folder);
  const sweep::SweepRecordAndReport result = sweep::sweep_commands(settings, progress);
  progress.clear();
  return finish(flags, result, folder);
}

}  // namespace

void add_profile(CLI::App& app, Action& action, const CommandWordsBehind& behind) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand("profile", kProfileDescription);
  flags->model.add_to(*command, "./memtune-profile");
  flags->model.ranks.add_to(*command);
  add_list(*command, "--batch", flags->model.batches, "batch size")->type_name("N")->expected(1);
  add_list(*command, "--seq", flags->model.sequences, "sequence length")->type_name("N")->expected(1);
  offer(command->add_option("--strategy", flags->strategy, "strategy to run (default: none)"), strategy_words())
      ->type_name("SPEC");
  command->add_option("--plan", flags->plan, "file with a plan of yours, instead of a strategy")->type_name("FILE");
  command->add_option("--json", flags->json, "write the figures as JSON; - is stdout")->type_name("FILE|-");
  add_show(*command, flags->model, behind);
  put_under(kModelOptions, *command, {"--batch", "--seq"});
  put_under(kTrials, *command, {"--strategy", "--plan"});
  put_under(kAnswer, *command, {"--json"});
  command->footer("-- COMMAND...");
  command->callback([flags, command, &action, behind] {
    if (behind) check_flags_of_command(*command, kFlagsOfCommands);
    if (behind)
      action = [flags, behind] { return profile_command(*flags, *behind); };
    else
      action = [flags] { return profile_strategy(*flags); };
  });
}

}  // namespace memtune::cli
