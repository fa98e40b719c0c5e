#include "cli/app.h"
#include "cli/finished_run.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "cli/progress.h"
#include "core/base/error.h"
#include "core/report/text/json.h"

namespace memtune::cli {
namespace {

constexpr char kDescription[] = R"(Run one strategy, always anew, and keep its trace.

Examples:
  memtune profile
  memtune profile --model resnet.pt --input 'x:float32[32,3,224,224]' --loss cross_entropy --strategy offload:stream
  memtune report ./memtune-profile --format perfetto -o trace.json)";

struct ProfileFlags {
  ModelFlags model;
  std::string strategy, plan, json;
};

void write_results(const ProfileFlags& flags, report::Report report) {
  add_findings(sweep::RunDirectory(flags.model.out), report);
  if (!flags.json.empty()) write_output(flags.json, report::to_json_text(report));
  if (flags.json == "-") return;
  report.recommendation = {};  // of one
  for (result::Row& row : report.rows) row.recommended = row.pareto = false;
  write_output("-", report::table(report, table_style(flags.model.console)));
  for (const result::Row& row : report.rows) {
    if (row.measurement.trace.empty()) continue;
    say(flags.model.console, "trace: " + (std::filesystem::path(flags.model.out) / row.measurement.trace).string());
  }
}

int run_command(const ProfileFlags& flags) {
  Progress progress(flags.model.console);
  if (!flags.strategy.empty() && !flags.plan.empty())
    throw UsageError("--strategy and --plan exclude each other: profile runs one");
  check_output("--json", flags.json);
  std::vector<plan::PlanFile> plans;
  if (!flags.plan.empty()) plans.emplace_back(flags.plan);
  sweep::SweepSettings settings = flags.model.settings();
  settings.plans = plans;
  if (plans.empty()) settings.strategies = {flags.strategy.empty() ? "none" : flags.strategy};
  settings.rounds = 1;  // there is nothing to take turns with
  settings.reuse = sweep::Reuse::nothing;
  const sweep::SweepResult result = sweep::run_sweep(settings, progress);
  progress.clear();
  if (!result.report.rows.empty()) write_results(flags, result.report);
  if (result.interrupted) return kInterrupted;
  if (result.report.recommendation.strategy.empty()) {
    say(flags.model.console, "next: memtune doctor; logs are in " + flags.model.out + "/trials/*/log.txt");
    return kFailed;
  }
  say(flags.model.console, "next: memtune view " + flags.model.out);
  return kDone;
}

}  // namespace

void add_profile(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand("profile", kDescription);
  flags->model.add_to(*command, "./memtune-profile");
  add_list(*command, "--batch", flags->model.batches, "batch size")->type_name("N")->expected(1);
  add_list(*command, "--seq", flags->model.sequences, "sequence length")->type_name("N")->expected(1);
  offer(command->add_option("--strategy", flags->strategy, "what to run (default: none)"), strategy_words())
      ->type_name("SPEC");
  command->add_option("--plan", flags->plan, "a plan that you wrote, instead of a strategy")->type_name("FILE");
  command->add_option("--json", flags->json, "write the figures as JSON; - is stdout")->type_name("FILE|-");
  put_under(kModelOptions, *command, {"--batch", "--seq"});
  put_under(kTrials, *command, {"--strategy", "--plan"});
  put_under(kAnswer, *command, {"--json"});
  command->callback([flags, &action] { action = [flags] { return run_command(*flags); }; });
}

}  // namespace memtune::cli
