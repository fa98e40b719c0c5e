#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "core/answer/report/text/columns.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/utf8.h"
#include "core/sweep/doctor/command_doctor.h"
#include "core/sweep/doctor/doctor_checks.h"
#include "core/sweep/doctor/doctor_probe.h"

namespace memtune::cli {
namespace {

using sweep::DoctorCheckResult;

constexpr std::chrono::minutes kCommandLimit{10};

constexpr char kDoctorDescription[] =
    R"(Check the machine and the build, or a training command: what is missing, the effect, and how to fix it.

Examples:
  memtune doctor
  memtune doctor --device cuda:1
  memtune doctor --scratch /data/scratch
  memtune doctor --json -
  memtune doctor --probe --write here.json          rates of compute, memory and PCIe, for plan --machine
  memtune doctor -- torchrun --nproc-per-node 2 train.py

A training command follows --. Its first steps show what memtune profile and sweep can measure of it. Options for a
command: --json, -q and --no-color.

Exit codes: 0 everything needed is there, 1 a check failed.)";

struct DoctorFlags {
  std::string device, scratch, json;  // json: a file, "-", or ""
  bool probe = false;
  std::string output;  // of the probe, a file
  ConsoleFlags console;
};

std::string as_json(const std::vector<DoctorCheckResult>& checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const DoctorCheckResult& check : checks) {
    list.push_back({{"name", check.name}, {"status", check.status}, {"detail", check.detail}, {"fix", check.fix}});
  }
  return print_json({{"checks", list}}, 2) + "\n";
}

report::ReportTextHighlightKind paint_of(const std::string& status) {
  return status == "ok"     ? report::ReportTextHighlightKind::good
         : status == "warn" ? report::ReportTextHighlightKind::doubtful
                            : report::ReportTextHighlightKind::bad;
}

std::string as_text(const std::vector<DoctorCheckResult>& checks, report::TerminalCapabilities style) {
  int names = 0;
  for (const DoctorCheckResult& check : checks) names = std::max(names, display_width(check.name));
  const int column = names + 8;
  std::string text;
  for (const DoctorCheckResult& check : checks) {
    const std::string lead = report::painted(pad_right(check.status, 4), paint_of(check.status), style.color) + "  " +
                             pad_right(printable(check.name), names + 2);
    text += hanging(lead, column, printable(check.detail), style.width);
    if (check.status == "ok" || check.fix.empty()) continue;
    text +=
        hanging(std::string(static_cast<size_t>(column), ' ') + "-> ", column + 3, printable(check.fix), style.width);
  }
  return text;
}

int print_checks(const DoctorFlags& flags, const std::vector<DoctorCheckResult>& checks, const std::string& next) {
  if (!flags.json.empty()) write_output(flags.json, as_json(checks));
  if (flags.json.empty()) write_output("-", as_text(checks, table_style(flags.console)));
  const bool failed =
      std::any_of(checks.begin(), checks.end(), [](const auto& check) { return check.status == "fail"; });
  say(flags.console, failed ? "next: fix what failed, then run memtune doctor again" : "next: " + next);
  return failed ? kFailed : kDone;
}

int look_at_command(const DoctorFlags& flags, const std::vector<std::string>& command) {
  check_output("--json", flags.json);
  if (command.empty()) throw UsageError("no command behind --; memtune doctor -- python train.py looks at one");
  return print_checks(flags, sweep::check_command(command, kCommandLimit), "memtune profile -- and the command");
}

int measure(const DoctorFlags& flags) {
  std::vector<std::string> notes;
  const std::string device = choose_device(flags.device, notes);
  for (const std::string& note : notes) say(flags.console, note);
  const plan::MachineProfile machine =
      sweep::probe_machine(device, flags.scratch, [&](const std::string& what) { say(flags.console, what); });
  if (!flags.output.empty()) write_output(flags.output, sweep::machine_json(machine));
  if (!flags.json.empty()) write_output(flags.json, sweep::machine_json(machine));
  if (flags.json.empty() && flags.output != "-") write_output("-", sweep::machine_text(machine));
  say(flags.console, "next: memtune plan --from RUN --machine " +
                         (flags.output.empty() || flags.output == "-" ? "FILE, which --write makes" : flags.output));
  return kDone;
}

int run_command(const DoctorFlags& flags) {
  check_outputs("--write", flags.output, "--json", flags.json);
  if (flags.probe) return measure(flags);
  if (!flags.output.empty()) throw UsageError("--write writes what was measured: it goes with --probe");
  std::vector<std::string> notes;
  std::vector<DoctorCheckResult> checks = sweep::check_machine(choose_device(flags.device, notes));
  if (!flags.scratch.empty()) checks.push_back(sweep::check_scratch(flags.scratch));
  for (const std::string& note : notes) say(flags.console, note);
  return print_checks(flags, checks, "memtune sweep");
}

}  // namespace

void add_doctor(CLI::App& app, Action& action, const CommandWordsBehind& behind) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = app.add_subcommand("doctor", kDoctorDescription);
  add_json_flag(*command, flags->json);
  offer(command->add_option("--device", flags->device, "cpu, cuda or cuda:N (default: cuda if there is one)"), kDevices)
      ->type_name("DEVICE");
  command->add_option("--scratch", flags->scratch, "folder in which to test the disk: writes and reads 1 GiB")
      ->type_name("DIR");
  command->add_flag("--probe", flags->probe,
                    "measure the machine, in a minute: compute, memory, PCIe, with --scratch a disk");
  command->add_option("--write", flags->output, "with --probe: file for plan --machine")->type_name("FILE");
  add_console_flags(*command, flags->console);
  command->footer("-- COMMAND...");
  command->callback([flags, command, &action, behind] {
    if (behind)
      check_flags_of_command(*command, {"--json", "--quiet", "--no-color"},
                             " is about the machine: memtune doctor looks at that without -- and a command");
    if (behind)
      action = [flags, behind] { return look_at_command(*flags, *behind); };
    else
      action = [flags] { return run_command(*flags); };
  });
}

}  // namespace memtune::cli
