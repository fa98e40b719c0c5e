#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/app.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/answer/trainer/rendered_python_plan.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/answer/trainer/trainer_profile.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/sweep/export/export_check.h"
#include "core/sweep/export/export_variant.h"

namespace memtune::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kExportDescription[] =
    R"(Write a strategy as a trainer's configuration, or say what a configuration of yours amounts to.

Examples:
  memtune export --trainer torchtune
  memtune export ./memtune-run --trainer axolotl -o memory.yaml
  memtune export --trainer axolotl --into mine.yaml -o mine-memory.yaml
  memtune export --trainer trl --into mine.yaml --in-place
  memtune export --trainer torchtune --strategy checkpoint:full
  memtune export --trainer python -o memtune_plan.py     the plan itself, for any training loop; --compile: compiled
  memtune export --trainer torchtitan --trainer-version 0.2.2    as TOML; 0.3's configs are Python
  memtune export --trainer axolotl --check mine.yaml     exit code 1 where a memory setting does not do what it says)";

struct ExportFlags {
  std::string run = "./memtune-run", trainer, strategy, into, check, output = "-";
  std::vector<std::string> releases;
  bool in_place = false, compile = false;
  ConsoleFlags console;
};

// "5.23" is the release of the trainer itself, "transformers=5.23" the release of a package that it needs.
std::map<std::string, std::string> releases_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> releases;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string release = equals == std::string::npos ? word : word.substr(equals + 1);
    if (release.empty() || release.find_first_not_of("0123456789.") != std::string::npos || release.front() == '.')
      throw UsageError("--trainer-version: '" + word + "' is no release like 5.17 or transformers=5.17");
    releases[equals == std::string::npos ? "" : word.substr(0, equals)] = release;
  }
  return releases;
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || fs::absolute(a).lexically_normal() == fs::absolute(b).lexically_normal();
}

constexpr char kPython[] = "python";

// The trainers with keys, and "python", which needs none.
std::vector<std::string> known_trainers() {
  std::vector<std::string> names(trainer::trainers().begin(), trainer::trainers().end());
  names.emplace_back(kPython);
  return names;
}

// Control characters are escaped on a terminal, because the text may come from an untrusted folder or config.
void write_config(const std::string& path, const std::string& text) {
  const bool shown = path == "-" && terminal_width(STDOUT_FILENO) > 0;
  const auto on_terminal = [](char32_t code) { return code == '\t' ? "\t" : code == '\r' ? "" : "\xEF\xBF\xBD"; };
  write_output(path, shown ? with_escapes(text, '\n', on_terminal) : text);
}

// The facts are for the row's batch and sequence, if the sweep inspected the model at these.
int write_python(const ExportFlags& flags, const sweep::RunDirectoryWithReport& run,
                 const result::TrialResultRow& row) {
  const std::optional<plan::Plan> plan = sweep::read_plan(run.directory / row.measurement.plan);
  if (!plan) throw UsageError("the plan of '" + row.measurement.strategy + "' is not in " + flags.run + " any more");
  const plan::ProgramFacts facts = run.directory.read_record().facts.program;
  const trainer::RenderedPythonPlan python = trainer::write_python_plan(
      *plan, facts, row, run.report,
      flags.compile ? trainer::EagerOrCompiledExecution::compiled : trainer::EagerOrCompiledExecution::eager);
  write_config(flags.output, python.text);
  for (const std::string& note : python.notes) say(flags.console, "note: " + note);
  say(flags.console, "next: import memtune_plan; memtune_plan.apply(" +
                         std::string(plan->offloads_states() ? "model, optimizer" : "model") +
                         ") before the first step");
  return kDone;
}

void check_flags(const ExportFlags& flags) {
  const auto known = known_trainers();
  if (std::find(known.begin(), known.end(), flags.trainer) == known.end())
    throw UsageError(trainer::unknown_trainer(flags.trainer, known));
  if (flags.trainer == kPython && (!flags.check.empty() || !flags.into.empty() || !flags.releases.empty()))
    throw UsageError(
        "--trainer python writes a file of its own: it goes without --into, --check and --trainer-version");
  if (flags.compile && flags.trainer != kPython)
    throw UsageError("--compile is about the plan in Python: --trainer python");
  if (!flags.check.empty() && (!flags.into.empty() || !flags.strategy.empty() || flags.output != "-" || flags.in_place))
    throw UsageError("--check writes nothing: it goes without --into, --in-place, --strategy and -o");
  if (flags.in_place && flags.into.empty())
    throw UsageError("--in-place is about a configuration: --into FILE names it");
  if (flags.in_place && flags.output != "-")
    throw UsageError("--in-place writes to " + flags.into + ": it goes without -o");
  for (const auto& [flag, file] : {std::pair("--into", flags.into), std::pair("--check", flags.check)})
    if (!file.empty()) require_file(flag, file);
  if (!flags.into.empty() && flags.output != "-" && is_same_file(flags.into, flags.output))
    throw UsageError("-o is the file of --into itself, which is overwritten with --in-place only");
}

// The rename to the old name breaks hard links: other names keep the old text.
void say_other_names(const ExportFlags& flags) {
  std::error_code ignored;
  if (flags.in_place && fs::hard_link_count(flags.into, ignored) > 1 && !ignored)
    say(flags.console, flags.into + " has other names (hard links), which keep the old text");
}

int print_check(const sweep::TrainerMemorySettingsEffectRequest& config) {
  const sweep::TrainerMemorySettingsEffectReport check = sweep::check_trainer_config(config);
  write_output("-", check.text);
  return check.works ? kDone : kFailed;
}

int run_command(const ExportFlags& flags) {
  check_flags(flags);
  say_other_names(flags);
  trainer::ConfigExportReleasesAndUserConfig settings{releases_of(flags.releases), "", ""};
  if (!flags.check.empty()) return print_check({flags.trainer, flags.check, flags.run, settings.releases});
  const sweep::RunDirectoryWithReport run = sweep::open_run(flags.run);
  if (is_of_commands(run.report)) {
    if (flags.compile)
      throw UsageError("--compile: the plan of '" + flags.run +
                       "' is that of an eager model, which the command trained");
    const std::string text = sweep::exported_variant(run, {flags.run, flags.trainer, flags.strategy, flags.into,
                                                           [&](const std::string& line) { say(flags.console, line); }});
    write_config(flags.in_place ? flags.into : flags.output, text);
    return kDone;
  }
  const result::TrialResultRow& row = sweep::find_row(run.report, flags.strategy);
  if (flags.trainer == kPython) return write_python(flags, run, row);
  if (!flags.into.empty()) {
    settings.name = flags.into;
    settings.text = read_file(flags.into);
  }
  const trainer::ExportedConfig written = trainer::export_config(flags.trainer, row, run.report, settings);
  for (const std::string& line : written.said) say(flags.console, line);
  write_config(flags.in_place ? flags.into : flags.output, written.text);
  if (flags.into.empty())
    say(flags.console, written.for_file
                           ? "next: put these keys into your " + flags.trainer + " configuration, or --into FILE does"
                           : "next: put these lines into your " + flags.trainer + " configuration");
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export", kExportDescription);
  command->add_option("run", flags->run, "folder of the sweep (default: ./memtune-run)")->type_name("DIR");
  const auto known = known_trainers();
  offer(command->add_option("--trainer", flags->trainer, join(known, ", ")), {known.begin(), known.end()})
      ->type_name("NAME")
      ->required();
  add_list(*command, "--trainer-version", flags->releases,
           "its release, or PACKAGE=RELEASE of one that it builds on (default: the newest that is known)")
      ->type_name("RELEASE");
  offer(command->add_option("--strategy", flags->strategy, "strategy of the sweep (default: the recommended one)"),
        strategy_words())
      ->type_name("SPEC");
  command->add_option("--into", flags->into, "your config; it is written with these keys in their places")
      ->type_name("FILE");
  command->add_flag("--compile", flags->compile, "--trainer python: a plan that compiles the blocks (torch.compile)");
  command->add_flag("--in-place", flags->in_place, "overwrite the file of --into");
  command->add_option("--check", flags->check, "your config: what its keys do, and which strategy that is")
      ->type_name("FILE");
  command->add_option("-o,--output", flags->output, "file to write (default: stdout)")->type_name("FILE|-");
  add_console_flags(*command, flags->console);
  command->callback([flags, &action] { action = [flags] { return run_command(*flags); }; });
}

}  // namespace memtune::cli
