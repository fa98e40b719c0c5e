#include "core/answer/report/words.h"

#include <algorithm>

#include "core/answer/report/prediction.h"
#include "core/answer/report/text/columns.h"
#include "core/answer/result/effect.h"
#include "core/answer/result/loss_comparison.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::TrialResultRow;

// Names the noisy trials, unless all trials are noisy.
std::string noisy_times(const std::vector<const TrialResultRow*>& rows) {
  double most = 0;
  std::vector<std::string> names;
  for (const TrialResultRow* row : rows) {
    if (!row->measurement.noisy) continue;
    most = std::max(most, spread(row->measurement.step_ms));
    names.push_back(label(*row));
  }
  if (names.empty()) return "";
  const std::string whose = names.size() == rows.size() ? "" : " of " + join(names, "; ");
  return "steps" + whose + " vary by " + (names.size() > 1 ? "up to " : "") + fixed(100 * most, 0) +
         " %: times that differ by less may be the same";
}

constexpr double kBusy = 0.25;  // share of the cores; above it, other processes slow a step more than strategies differ

// Shows the round with the highest load from other processes.
std::string busy_cores(const Report& report) {
  const result::TrialRoundTimesAndMachineLoad* most = nullptr;
  for (const TrialResultRow& row : report.rows)
    for (const result::TrialRoundTimesAndMachineLoad& round : row.measurement.rounds)
      if (round.cores > 0 && (!most || round.other_cores > most->other_cores)) most = &round;
  if (!most) return "";
  const auto cores = static_cast<double>(most->cores);
  if (most->other_cores < kBusy * cores) return "";
  return "the machine was busy: other processes kept up to " + fixed(most->other_cores, 1) + " of " + fixed(cores, 0) +
         " cores busy during trials (load average before them: " + fixed(most->load, 1) +
         "); differences between strategies may come from them";
}

std::string busy_gpu(const Report& report) {
  int64_t most = 0;
  for (const TrialResultRow& row : report.rows)
    for (const result::TrialRoundTimesAndMachineLoad& round : row.measurement.rounds)
      most = std::max(most, round.gpu_processes);
  if (most == 0) return "";
  return std::to_string(most) + (most == 1 ? " other process was" : " other processes were") +
         " on the GPU during trials; times and free memory may be affected";
}

// "offload:sync; offload:stream: equal to none: nothing was offloaded; every activation is below min=1MiB": one line
// per reason.
std::vector<std::string> without_effect(const Report& report) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const TrialResultRow& row : report.rows) {
    const std::string reason = effect_text(row.measurement);
    if (reason.empty()) continue;
    auto found = std::ranges::find(reasons, reason, &std::pair<std::string, std::vector<std::string>>::first);
    if (found == reasons.end()) found = reasons.insert(found, {reason, {}});
    found->second.push_back(label(row));
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : reasons) lines.push_back(join(names, "; ") + ": " + reason);
  return lines;
}

std::vector<const TrialResultRow*> rows_that_worked(const Report& report) {
  std::vector<const TrialResultRow*> rows = ranked(report.rows);
  std::erase_if(rows, [](const TrialResultRow* row) { return !worked(*row); });
  return rows;
}

}  // namespace

std::string display_name(const TrialResultRow& row) {
  return row.measurement.strategy +
         (has_ineffective_part(row.measurement) ? " = " + effective_strategy(row.measurement) : "");
}

std::vector<std::string> warnings(const Report& report) {
  std::vector<std::string> lines;
  for (std::string line : {busy_cores(report), busy_gpu(report)})
    if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string signed_percent(double share) {
  const std::string text = fixed(100 * share, 1);
  if (text == "0.0" || text == "-0.0") return "0.0 %";
  return (text.starts_with('-') ? "" : "+") + text + " %";
}

std::string predicted_text(const result::TrialPrediction& predicted) {
  return fixed(predicted.step_ms, digits_for(predicted.step_ms)) + " ms a step, " +
         (predicted.required_bytes > 0 ? format_bytes(predicted.required_bytes) + " on the device"
                                       : format_bytes(predicted.peak_bytes) + " at the peak");
}

std::string failure_text(const TrialResultRow& row) {
  const result::TrialMeasurement& m = row.measurement;
  return result::label(to_string(m.outcome), row.batch, row.sequence) + (m.reason.empty() ? "" : ": " + m.reason) +
         (row.predicted ? "; predicted: " + predicted_text(*row.predicted) : "");
}

std::string device_text(const Report& report) { return report.device + (report.emulated ? ", emulating a GPU" : ""); }

std::vector<std::string> legend(const Report& report) {
  const std::vector<const TrialResultRow*> rows = rows_that_worked(report);
  const auto any = [&](bool TrialResultRow::*mark) {
    return std::any_of(rows.begin(), rows.end(), [&](const TrialResultRow* row) { return row->*mark; });
  };
  std::vector<std::string> parts;
  if (any(&TrialResultRow::recommended)) parts.push_back("* recommended");
  if (any(&TrialResultRow::pareto)) parts.push_back("• no other is both faster and smaller");
  if (!rows.empty() && reference_label(report) != report.reference) parts.push_back("ref: " + report.reference);
  return parts;
}

RecommendationText verdict(const Report& report) {
  const result::Recommendation& advice = report.recommendation;
  if (advice.strategy.empty() && advice.reason.empty()) return {};
  if (!advice.fits || advice.strategy.empty()) return {"No recommendation", advice.reason, false};
  const auto row = std::ranges::find_if(report.rows, &TrialResultRow::recommended);
  const std::string shown = row == report.rows.end() ? advice.strategy : display_name(*row);
  const std::string name = result::label(shown, advice.batch, advice.sequence);
  return {"Recommended", name + (advice.reason.empty() ? "" : ": " + advice.reason), true};
}

std::vector<std::string> notes(const Report& report) {
  const std::vector<const TrialResultRow*> rows = rows_that_worked(report);
  std::vector<std::string> notes = without_effect(report);
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  for (std::string& line : bounds_text(report)) notes.push_back(std::move(line));
  if (std::string noisy = noisy_times(rows); !noisy.empty()) notes.push_back(std::move(noisy));
  for (const TrialResultRow* row : rows)
    if (row->measurement.losses.changed)
      notes.push_back(label(*row) + " trains differently from " + row->measurement.losses.against +
                      ", so it is not recommended: " + why_changed(row->measurement.losses));
  for (const TrialResultRow* row : rows)
    if (const TrialResultRow* base = reference_row(report, *row);
        base && !row->command.empty() && has_other_samples(row->measurement, base->measurement))
      notes.push_back("a step of " + label(*row) + " has " +
                      fixed(amount(row->measurement, result::WorkUnit::sample), 0) + " samples, that of " +
                      label(*base) + " has " + fixed(amount(base->measurement, result::WorkUnit::sample), 0) +
                      ": their losses are not compared");
  const auto nearly_equal = [](const TrialResultRow* row) {
    return row->measurement.gradients.compared && !row->measurement.gradients.equal;
  };
  if (std::any_of(rows.begin(), rows.end(), nearly_equal)) {
    notes.push_back("the gradients of " + report.reference +
                    " differ from run to run; those marked ≈ differ from them by no more than that");
  }
  if (report.emulated) {
    notes.push_back(
        "emulation: the CPU acts as a GPU. Use it to compare memory and to check gradients; times and overlap are the "
        "CPU's and say nothing about a GPU");
  }
  return notes;
}

}  // namespace memtune::report
