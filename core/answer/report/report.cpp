#include "core/answer/report/report.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace memtune::report {

using result::TrialResultRow;

const TrialResultRow* reference_row(const Report& report, const TrialResultRow& row) {
  const auto found = std::ranges::find_if(report.rows, [&](const TrialResultRow& other) {
    return worked(other) && other.measurement.strategy == report.reference && same_axes(other, row);
  });
  return found == report.rows.end() ? nullptr : &*found;
}

bool is_of_commands(const Report& report) {
  return std::ranges::any_of(report.rows, [](const TrialResultRow& row) { return !row.command.empty(); });
}

bool has_resident_peaks(const Report& report) { return is_of_commands(report) && report.device.starts_with("CPU"); }

Report printable(Report report) {
  const auto clean = [](auto&... texts) { ((texts = memtune::printable(texts)), ...); };
  // Names appear in table cells, so they become one line.
  const auto clean_names = [](auto&... names) { ((names = printable_line(names)), ...); };
  clean(report.version, report.model, report.device, report.settings, report.reshard, report.shard_flags);
  clean(report.recommendation.reason, report.trainer, report.no_plan);
  clean_names(report.reference, report.recommendation.strategy, report.own_config, report.own_strategy);
  trace::RunProvenance& origin = report.origin;
  clean(origin.written, origin.command, origin.model, origin.memtune, origin.torch, origin.driver, origin.machine);
  for (std::string& note : report.notes) clean(note);
  for (findings::Finding& finding : report.findings)
    clean(finding.rule, finding.what, finding.advice, finding.alternative_strategy);
  for (TrialResultRow& row : report.rows) {
    result::TrialMeasurement& m = row.measurement;
    clean_names(m.strategy, m.equal_to, m.gradients.worst, m.gradients.against, m.losses.against);
    clean(m.reason, m.no_effect, m.dtype, m.device, m.plan, m.trace, row.config, row.python);
    if (m.growth)
      clean_names(m.growth->owner, m.growth->line.file, m.growth->line.function, m.growth->line.inner,
                  m.growth->line.text);
    if (m.oom) {
      for (result::AllocatingSourceLine& line : m.oom->lines)
        clean_names(line.file, line.function, line.inner, line.text);
      for (result::OomLoadedModel& model : m.oom->models) clean_names(model.name);
      for (result::SettingInTrainerSyntax& words : m.oom->words) clean_names(words.setting), clean(words.text);
      clean_names(m.oom->trainer);
      clean_names(m.oom->where.file, m.oom->where.function, m.oom->where.inner, m.oom->where.text);
    }
    if (m.memory) {
      for (result::AllocatingSourceLine& line : m.memory->lines)
        clean_names(line.file, line.function, line.inner, line.text);
      for (result::SameNamedModulesPeakMemory& module : m.memory->modules) clean_names(module.name);
      clean_names(m.memory->paths);
    }
    for (result::TrialRoundTimesAndMachineLoad& round : m.rounds) clean_names(round.base);
    for (std::string& word : row.command) clean(word);
    for (result::StateSaveModeMeasurement& save : row.saves)
      clean_names(save.mode), clean(save.reason, save.no_slowdown);
  }
  return report;
}

}  // namespace memtune::report
