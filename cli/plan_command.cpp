#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "cli/progress.h"
#include "core/answer/report/text/plan_table.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/plan/facts/machine_profile.h"
#include "core/sweep/predict/plans_by_budget_from_run_result.h"

namespace memtune::cli {
namespace {

constexpr char kPlanDescription[] =
    R"(Compute the best plans for the model of a sweep, or check a plan that you wrote.

Examples:
  memtune plan --from ./memtune-run                          the predicted plan for every budget
  memtune plan --from ./memtune-run --budget 16GiB --write best.json
  memtune plan --from ./memtune-run --batch auto --budget 16GiB
  memtune plan validate mine.json
  memtune plan --from ./memtune-run --batch 16               for another batch than the recorded one
  memtune plan --from ./memtune-run --machine a100-40gb      for another GPU
  memtune plan --from ./memtune-run --ranks 8                for another number of GPUs, from a run on several
  memtune plan validate mine.json --model model.pt --input 'tokens:int64[4,4096]<32000' --loss next_token
  memtune sweep --strategy none --plan mine.json

A plan starts from a strategy. Rules then place the activations that they select, and a later rule wins:
  {"version": 1, "name": "mine", "strategy": "checkpoint:cheap",
   "rules": [{"blocks": "0-9", "region": "layers.*.mlp", "op": "linear",
              "outputs": "host"},
             {"inputs_of": "layers.*.attn", "outputs": "keep"}]}

Places are keep, recompute, host and disk. "outputs" places the outputs of ops, "saved" the tensors that ops save for
their own backward. A rule selects by blocks (0-9:12:20-), region and inputs_of (globs of module paths) and op (a name,
or matmul, attention, norm, cheap).)";

struct PlanFromRunFlags {
  std::string run, batch, ranks, link_rates, output, json;
  std::vector<std::string> budgets;
  sweep::SourceTargetMachineNames machine;
};

struct PlanFlags {
  ModelFlags model;
  PlanFromRunFlags paper;
  std::string action, file;
  std::string of_paper, of_model;  // given flags: of --from, and of the model or its training
};

// The model of --from is fixed. These of the model's flags apply to its plans too.
const std::vector<std::string> kOfPlans = {"--host-budget", "--disk-budget", "--quiet",
                                           "--no-color",    "--help",        "--help-all"};

// The first given option that is not in `but`; "": none.
std::string given(std::span<CLI::Option* const> options, const std::vector<std::string>& but = {}) {
  const auto is_given = [&](const CLI::Option* option) {
    return option->count() > 0 && std::ranges::count(but, option->get_name(false, false)) == 0;
  };
  const auto found = std::ranges::find_if(options, is_given);
  return found == options.end() ? "" : (*found)->get_name();
}

int show(const plan::HandWrittenPlanFile& file, const PlanFlags& flags) {
  Progress progress(flags.model.console);
  const sweep::EngineSweepSettings settings = flags.model.settings();
  const auto model = sweep::inspect_model(settings, progress);
  progress.clear();
  if (!model) return kInterrupted;
  const plan::PlanPlacementSummary summary = plan::summarize(file.make_plan(model->program), model->program);
  write_output("-", printable(file.name() + " on " + settings.model + ": activations that backward needs\n\n" +
                              report::summary_table(summary)));
  if (!summary.measured) say(flags.model.console, "sizes are not known: no forward of this model was measured");
  say(flags.model.console, "next: memtune sweep with --plan " + flags.file);
  return kDone;
}

sweep::PerRankHostLinkBandwidth link_rates_flag(const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() != 2) throw UsageError("--link-rates: '" + text + "' is not OUT,IN in GB/s, such as 37,47");
  const sweep::PerRankHostLinkBandwidth rates{parse_number(trim(parts[0]), "--link-rates"),
                                              parse_number(trim(parts[1]), "--link-rates")};
  if (!(rates.out_gb_per_s > 0 && rates.out_gb_per_s < 1e6 && rates.in_gb_per_s > 0 && rates.in_gb_per_s < 1e6))
    throw UsageError("--link-rates: '" + text + "' has a rate that no link has");
  return rates;
}

sweep::PlanFromRunOptions plan_from_run(const PlanFlags& flags) {
  sweep::PlanFromRunOptions from{flags.paper.run, {}, 0, 0, {}, {}, {}, flags.paper.machine};
  for (const std::string& list : flags.paper.budgets)
    for (const std::string& budget : split(list, ',')) from.budgets.push_back(bytes_flag("--budget", trim(budget)));
  if (!flags.paper.output.empty() && from.budgets.size() != 1)
    throw UsageError("--write writes one plan: it goes with one --budget");
  if (from.machine.machine.empty() && !from.machine.from.empty())
    throw UsageError("--from-machine names the machine that measured: it goes with --machine, the one to plan for");
  if (!from.machine.machine.empty() && !flags.paper.ranks.empty())
    throw UsageError("--ranks and --machine exclude each other: profiles of machines have no rates of collectives");
  check_outputs("--write", flags.paper.output, "--json", flags.paper.json);
  if (!flags.model.host_budget.empty()) from.host_budget_bytes = bytes_flag("--host-budget", flags.model.host_budget);
  if (!flags.model.disk_budget.empty()) from.disk_budget_bytes = bytes_flag("--disk-budget", flags.model.disk_budget);
  if (flags.paper.batch == "auto")
    from.batch = 0;
  else if (!flags.paper.batch.empty())
    from.batch = integer_flag("--batch", flags.paper.batch, 1, sweep::kMaxBatch);
  if (!flags.paper.link_rates.empty()) {
    if (flags.paper.ranks.empty()) throw UsageError("--link-rates goes with --ranks");
    from.link_rates = link_rates_flag(flags.paper.link_rates);
  }
  if (!flags.paper.ranks.empty())
    from.ranks = static_cast<int>(integer_flag("--ranks", flags.paper.ranks, 2, sweep::kMaxPlannedRanks));
  return from;
}

sweep::PlansByBudgetFromRunResult predicted_plans(const PlanFlags& flags) {
  Progress progress(flags.model.console);
  return sweep::predict_plans(plan_from_run(flags), progress);
}

// Prints the answer. --write writes the plan of the single budget.
int predict(const PlanFlags& flags) {
  const sweep::PlansByBudgetFromRunResult plans = predicted_plans(flags);
  const std::string &output = flags.paper.output, &json = flags.paper.json;
  if (!output.empty() && plans.any_fits())
    write_output(output, print_json(nlohmann::json(plans.answer.budget_ladder.front().step->plan), 2) + "\n");
  if (!json.empty()) write_output(json, print_json(to_json(plans), 2) + "\n");
  if (json.empty() && output != "-") write_output("-", to_text(plans, table_style(flags.model.console)));
  return plans.any_fits() ? kDone : kFailed;
}

int run_command(const PlanFlags& flags) {
  if (!flags.paper.run.empty()) {
    if (!flags.action.empty()) throw UsageError("plan: validate and --from exclude each other");
    if (!flags.of_model.empty())
      throw UsageError("plan --from: " + flags.of_model + " comes from the run. To change it, record another run: " +
                       "memtune sweep --strategy none with it and another --out");
    return predict(flags);
  }
  if (!flags.of_paper.empty()) throw UsageError(flags.of_paper + " is for predicted plans: it needs --from");
  if (flags.action.empty()) throw UsageError("plan: say validate FILE, or --from RUN");
  choice_flag("plan", flags.action, {"validate"});
  if (flags.file.empty()) throw UsageError("plan validate: FILE is required");
  const plan::HandWrittenPlanFile file(flags.file);
  if (!flags.model.model.empty()) return show(file, flags);
  write_output("-", file.name() + ": a valid plan\n");
  say(flags.model.console, "next: add --model to see what it does");
  return kDone;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand("plan", kPlanDescription);
  offer(command->add_option("validate", flags->action, "what to do with it"), {"validate"})->type_name(" ");
  command->add_option("FILE", flags->file, "the plan")->type_name(" ");
  command->add_option("--from", flags->paper.run, "folder of a sweep; plans are computed for its model")
      ->type_name("DIR");
  const size_t of_paper = command->get_options().size();
  offer(command->add_option("--batch", flags->paper.batch,
                            "plan for another batch than the recorded one: N samples, or auto: the fastest whose plan "
                            "fits --budget"),
        {"auto"})
      ->type_name("N|auto");
  command
      ->add_option("--ranks", flags->paper.ranks,
                   "plan for another number of ranks than that of the sweep, which needs at least 2")
      ->type_name("N");
  command
      ->add_option("--link-rates", flags->paper.link_rates,
                   "with --ranks: GB/s of each rank's copies to and from the host while all copy, as memtune doctor "
                   "measures them (default: as recorded)")
      ->type_name("OUT,IN");
  offer(command->add_option(
            "--machine", flags->paper.machine.machine,
            "plan for another machine: " + join(plan::machine_names(), ", ") + ", or a file of doctor --probe"),
        plan::machine_names())
      ->type_name("NAME|FILE");
  offer(command->add_option("--from-machine", flags->paper.machine.from,
                            "with --machine: the machine of the sweep (default: found by its device's name)"),
        plan::machine_names())
      ->type_name("NAME|FILE");
  add_list(*command, "--budget", flags->paper.budgets, "device memory for training: 16GiB; several: 16GiB,12GiB")
      ->type_name("LIST");
  command->add_option("--write", flags->paper.output, "write the plan for --budget; - is stdout")->type_name("FILE|-");
  command->add_option("--json", flags->paper.json, "write the answer as JSON; - is stdout")->type_name("FILE|-");
  const size_t of_model = command->get_options().size();
  flags->model.add_to(*command, "./memtune-run");
  command->callback([flags, command, of_paper, of_model, &action] {
    const std::vector<CLI::Option*> options = command->get_options();
    flags->of_paper = given(std::span(options).subspan(of_paper, of_model - of_paper));
    flags->of_model = given(std::span(options).subspan(of_model), kOfPlans);
    action = [flags] { return run_command(*flags); };
  });
}

}  // namespace memtune::cli
