#include <algorithm>
#include <filesystem>

#include "cli/app.h"
#include "cli/finished_run.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/trainer/merge.h"
#include "core/trainer/python_plan.h"
#include "core/trainer/trainer.h"

namespace memtune::cli {
namespace {

constexpr char kDescription[] =
    R"(Write a strategy as a trainer's configuration: the recommended one, or the one you name.

Examples:
  memtune export --trainer torchtune
  memtune export ./memtune-run --trainer axolotl -o memory.yaml
  memtune export --trainer torchtune --into tune.yaml -o tune-memory.yaml
  memtune export --trainer torchtune --strategy checkpoint:full
  memtune export --trainer python -o memtune_plan.py     the plan itself, for any training loop
  memtune export --trainer torchtitan                    how to save, after sweep --saves --mtbf 12h)";

struct ExportFlags {
  std::string run = "./memtune-run", trainer, strategy, into, output = "-";
  ConsoleFlags console;
};

// The facts are those of the row's own batch and sequence where the sweep looked at them.
int write_python(const ExportFlags& flags, const FinishedRun& run, const result::Row& row) {
  const std::optional<config::Plan> plan = sweep::read_plan(run.directory / row.measurement.plan);
  if (!plan) throw UsageError("the plan of '" + row.measurement.strategy + "' is not in " + flags.run + " any more");
  const config::ProgramFacts facts = run.directory.read_record().facts.program;
  const trainer::PythonPlan python = trainer::write_python_plan(*plan, facts, row, run.report);
  write_output(flags.output, python.text);
  for (const std::string& note : python.notes) say(flags.console, "note: " + note);
  say(flags.console, "next: import memtune_plan; memtune_plan.apply(model) before the first step");
  return kDone;
}

int run_command(const ExportFlags& flags) {
  const auto known = trainer::trainers();
  if (std::find(known.begin(), known.end(), flags.trainer) == known.end()) {
    throw UsageError(unknown_name("trainer", flags.trainer, known));
  }
  if (!flags.into.empty() && !std::filesystem::is_regular_file(flags.into))
    throw UsageError("--into: no such file: " + flags.into);
  if (!flags.into.empty() && !trainer::is_yaml(flags.trainer))
    throw UsageError("--into: a configuration of " + flags.trainer + " is no YAML; put the keys in by hand");
  const FinishedRun run = open_run(flags.run);
  if (is_of_commands(run.report))
    throw UsageError("'" + flags.run +
                     "' is the sweep of a training command, whose answer is a command: memtune report " + flags.run +
                     " --format json has it as \"command\" of the trial");
  const result::Row& row = find_row(run.report, flags.strategy);
  if (flags.trainer == trainer::kPython) return write_python(flags, run, row);
  const std::string keys = trainer::export_config(flags.trainer, row, run.report);
  if (!flags.into.empty()) {
    write_output(flags.output, trainer::merge(read_file(flags.into), keys, flags.into));
    return kDone;
  }
  write_output(flags.output, keys);
  say(flags.console, "next: put these keys into your " + flags.trainer + " configuration" +
                         (trainer::is_yaml(flags.trainer) ? ", or --into FILE does" : ""));
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export", kDescription);
  command->add_option("run", flags->run, "folder of the sweep (default: ./memtune-run)")->type_name("DIR");
  const auto known = trainer::trainers();
  offer(command->add_option("--trainer", flags->trainer, join(known, ", ")), {known.begin(), known.end()})
      ->type_name("NAME")
      ->required();
  offer(command->add_option("--strategy", flags->strategy, "of the sweep (default: the recommended)"), strategy_words())
      ->type_name("SPEC");
  command->add_option("--into", flags->into, "a configuration of yours: it is written with these keys in their places")
      ->type_name("FILE");
  command->add_option("-o,--output", flags->output, "file to write (default: stdout)")->type_name("FILE|-");
  add_console_flags(*command, flags->console);
  command->callback([flags, &action] { action = [flags] { return run_command(*flags); }; });
}

}  // namespace memtune::cli
