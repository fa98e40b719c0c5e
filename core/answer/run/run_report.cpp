// Turns a run directory into a report.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/answer/result/effect.h"
#include "core/answer/result/loss_comparison.h"
#include "core/answer/run/command_notes.h"
#include "core/answer/run/run_directory.h"
#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/base/torch_version.h"

namespace memtune::sweep {
namespace {

// "1|2|4" if an axis has several values.
std::string axis_text(const SweepJsonSettingsFactsAndTrials& record, std::optional<int64_t> SweepTrialEntry::*axis) {
  std::set<int64_t> values;
  for (const SweepTrialEntry& trial : record.trials)
    if (trial.*axis) values.insert(*(trial.*axis));
  std::vector<std::string> texts;
  for (const int64_t value : values) texts.push_back(std::to_string(value));
  return join(texts, "|");
}

// "tokens:int64[4,4096]<32000" has the sizes of the first setting; replaces those that are axes.
std::string with_axes(const std::string& input, const std::string& batches, const std::string& sequences) {
  const size_t open = input.find('['), close = input.find(']');
  if (open == std::string::npos || close == std::string::npos) return input;
  std::vector<std::string> sizes = split(input.substr(open + 1, close - open - 1), ',');
  if (!batches.empty() && !sizes.empty()) sizes[0] = batches;
  if (!sequences.empty() && sizes.size() > 1) sizes[1] = sequences;
  return input.substr(0, open + 1) + join(sizes, ",") + input.substr(close);
}

std::string steps_text(int steps, int warmup, size_t most_rounds) {
  const auto text = [](int count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? " step" : " steps");
  };
  const std::string rounds = most_rounds > 1 ? " in each of " + std::to_string(most_rounds) + " rounds" : "";
  return text(steps, "measured") + " after " + text(warmup, "warm-up") + rounds;
}

std::string settings_line(const CommandSweepSettingsAndVariants& command, size_t most_rounds) {
  return (command.trainer.empty() ? "" : command.trainer + ", ") +
         (command.memory_cap_bytes > 0 ? "memory cap " + format_bytes(command.memory_cap_bytes) + ", " : "") +
         steps_text(command.steps, command.warmup, most_rounds);
}

std::string settings_line(const SweepJsonSettingsFactsAndTrials& record, size_t most_rounds) {
  if (record.command) return settings_line(*record.command, most_rounds);
  const plan::TrainingSettings& training = record.request.training;
  const std::string batches = axis_text(record, &SweepTrialEntry::batch),
                    sequences = axis_text(record, &SweepTrialEntry::sequence);
  std::vector<std::string> parts;
  for (const std::string& input : record.facts.inputs) parts.push_back(with_axes(input, batches, sequences));
  if (!record.facts.loss.empty()) parts.push_back("loss " + record.facts.loss);
  if (training.loss_impl != "plain") parts.push_back("loss " + training.loss_impl);
  parts.push_back(training.optimizer);
  if (record.global_batch > 0) parts.push_back(std::to_string(record.global_batch) + " samples a step");
  if (training.ranks > 1)
    parts.push_back(std::to_string(training.ranks) + " ranks" +
                    (training.reshard == "always" ? "" : ", reshard " + training.reshard) +
                    (training.shard_dtype.empty() ? "" : ", shards in " + training.shard_dtype) +
                    (training.reduce_dtype.empty() ? "" : ", reduced in " + training.reduce_dtype) +
                    (training.shard_offload ? ", shards in CPU memory" : ""));
  if (training.accumulate > 1) parts.push_back(std::to_string(training.accumulate) + " micro-batches a step");
  if (training.max_grad_norm > 0) parts.push_back("gradients clipped");
  if (!training.dtype.empty()) parts.push_back(training.dtype);
  if (!training.autocast.empty()) parts.push_back("autocast " + training.autocast);
  if (!training.load_in.empty()) parts.push_back("weights in " + training.load_in);
  if (!training.lora.empty()) parts.push_back("LoRA " + training.lora);
  if (training.memory_cap_bytes > 0) parts.push_back("memory cap " + format_bytes(training.memory_cap_bytes));
  parts.push_back(steps_text(training.steps, training.warmup, most_rounds));
  return join(parts, ", ");
}

void put_sharding(const plan::TrainingSettings& training, report::Report& report) {
  report.reshard = training.reshard;
  report.shards_on_host = training.shard_offload;
  if (!training.shard_dtype.empty()) report.shard_flags += " --shard-dtype " + training.shard_dtype;
  if (!training.reduce_dtype.empty()) report.shard_flags += " --reduce-dtype " + training.reduce_dtype;
  if (training.shard_offload) report.shard_flags += " --shard-offload";
}

// The strategy whose gradients are the reference.
std::string reference_of(const report::Report& report) {
  for (const result::TrialResultRow& row : report.rows) {
    if (!row.measurement.gradients.against.empty()) return row.measurement.gradients.against;
  }
  const result::TrialResultRow* found = nullptr;
  for (const result::TrialResultRow& row : report.rows)
    if (usable(row.measurement) && (!found || trains_more(row.measurement, found->measurement))) found = &row;
  return found ? found->measurement.strategy : "none";
}

// Each note once. Notes that only some trials have are prefixed with the names of these.
std::vector<std::string> notes_of(const std::vector<SweepTrialEntry>& trials) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;
  for (const SweepTrialEntry& trial : trials)
    for (const std::string& note : trial.notes) {
      auto found = std::ranges::find(notes, note, &std::pair<std::string, std::vector<std::string>>::first);
      if (found == notes.end()) found = notes.insert(found, {note, {}});
      found->second.push_back(trial.strategy);
    }
  std::vector<std::string> lines;
  for (const auto& [note, names] : notes)
    lines.push_back(names.size() == trials.size() ? note : join(names, "; ") + ": " + note);
  return lines;
}

void find_effects(const CommandSweepSettingsAndVariants& sweep, report::Report& report) {
  if (has_resident_peaks(report)) return;
  std::vector<std::string> likes;
  for (const result::TrialResultRow& row : report.rows) {
    const auto variant = std::ranges::find(sweep.variants, row.measurement.strategy, &CommandVariant::name);
    likes.push_back(variant == sweep.variants.end() || variant->planned ? "" : variant->like);
  }
  result::compare_effects(report.rows, likes);
}

// Adds the command and the files of each row, and compares its losses with those of the baseline.
void add_command(const RunDirectory& directory, const SweepJsonSettingsFactsAndTrials& record, report::Report& report) {
  const CommandSweepSettingsAndVariants& sweep = *record.command;
  report.planned = !sweep.native.empty();
  report.trainer = sweep.trainer;
  report.no_plan = sweep.no_plan;
  report.notes.insert(report.notes.end(), sweep.notes.begin(), sweep.notes.end());
  for (size_t i = 0; i < report.rows.size(); ++i) {
    result::TrialResultRow& row = report.rows[i];
    const std::string& name = row.measurement.strategy;
    const auto trial = std::ranges::find(record.trials, name, &SweepTrialEntry::strategy);
    const auto variant = std::ranges::find(sweep.variants, name, &CommandVariant::name);
    if (trial != record.trials.end() && variant != sweep.variants.end())
      row.command = with_paths(*variant, (directory / trial->folder).string());
    if (!row.command.empty() && !variant->file_name.empty())
      row.config = (directory / trial->folder / config_file(*variant)).string();
    if (!row.command.empty() && variant->planned) row.python = (directory / trial->folder / kPlanFile).string();
    row.base = variant == sweep.variants.begin();
    const result::TrialResultRow* base = report::reference_row(report, row);
    if (!base || base == &row || !worked(row)) continue;
    const auto of_base = std::ranges::find(sweep.variants, base->measurement.strategy, &CommandVariant::name);
    const bool same =
        variant == sweep.variants.end() || of_base == sweep.variants.end() || variant->training == of_base->training;
    if (same)
      row.measurement.losses = result::compare_losses(row.measurement, base->measurement);
    else
      report.notes.push_back("the losses of " + name + " are not compared with those of " + of_base->name +
                             ": --allow lets them train differently");
  }
  find_effects(sweep, report);
  for (const SkippedCommandVariant& skipped : sweep.skipped) {
    result::TrialResultRow& row = report.rows.emplace_back();
    row.measurement.strategy = skipped.name;
    row.measurement.outcome = result::TrialOutcome::skipped;
    row.measurement.reason = skipped.reason;
  }
}

// "" if all trials were reached.
std::string not_reached(const SweepJsonSettingsFactsAndTrials& record, const report::Report& report) {
  const auto count = std::ranges::count_if(report.rows, [&](const result::TrialResultRow& row) {
    return row.measurement.outcome == result::TrialOutcome::skipped &&
           std::ranges::find(record.trials, row.measurement.strategy, &SweepTrialEntry::strategy) !=
               record.trials.end();
  });
  if (count == 0) return "";
  return std::to_string(count) + " of " + std::to_string(record.trials.size()) +
         " trials were not reached within the time limit";
}

}  // namespace

std::string untested_engines(const SweepJsonSettingsFactsAndTrials& record) {
  return record.command || record.request.training.device == "cpu" ? "" : untested_on_gpu(record.origin.torch);
}

report::Report make_report(const RunDirectory& directory, const SweepJsonSettingsFactsAndTrials& record) {
  report::Report report;
  report.version = MEMTUNE_VERSION;
  report.model = record.model;
  report.device = record.machine;
  report.origin = record.origin;
  report.budget_bytes = record.budget_bytes;
  report.goal = record.goal;
  report.global_batch = record.global_batch;
  report.clips_gradients = record.request.training.max_grad_norm > 0;
  report.mtbf_s = record.mtbf_s;
  report.keep_last = record.keep_last;
  report.own_config = record.own_config;
  report.own_strategy = record.own_strategy;
  report.frontiers = record.frontiers;
  report.blocks = static_cast<int>(record.facts.program.blocks.size());
  if (record.request.training.ranks > 1) put_sharding(record.request.training, report);
  report.notes = record.facts.program.notes;
  if (std::string untested = untested_engines(record); !untested.empty()) report.notes.push_back(std::move(untested));
  for (const SweepTrialEntry& spec : record.trials) {
    if (auto measurement = directory.read_measurement(spec.folder)) {
      if (!measurement->device.empty()) report.device = measurement->device;
      report.emulated |= measurement->emulated;
      const int64_t passes = spec.batch && record.global_batch > 0 ? record.global_batch / *spec.batch
                                                                   : record.request.training.accumulate;
      report.rows.push_back({std::move(*measurement), false, false, spec.batch, spec.sequence, spec.saves, passes});
      report.rows.back().predicted = spec.predicted;
    }
  }
  size_t most_rounds = 0;
  for (const result::TrialResultRow& row : report.rows)
    most_rounds = std::max(most_rounds, row.measurement.rounds.size());
  report.settings = settings_line(record, most_rounds);
  const size_t missing = record.trials.size() - report.rows.size();
  if (missing > 0) {
    report.notes.push_back(std::to_string(missing) + " of " + std::to_string(record.trials.size()) +
                           " trials have not run; run the same sweep again to continue");
  }
  for (std::string& note : notes_of(record.trials)) report.notes.push_back(std::move(note));
  add_command_notes(directory, report);
  report.reference = reference_of(report);
  if (record.command) add_command(directory, record, report);
  report.recommendation = recommend(report.rows, record.budget_bytes, record.goal);
  if (const std::string left = not_reached(record, report); !left.empty()) {
    report.recommendation.reason += "; of what was measured: " + left;
    report.notes.push_back(left + "; run the same sweep again to continue");
  }
  mark_rows(report.rows, report.recommendation);
  return report;
}

}  // namespace memtune::sweep
