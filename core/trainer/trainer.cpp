#include "core/trainer/trainer.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/result/effect.h"
#include "core/trainer/comment.h"
#include "core/trainer/config.h"
#include "core/trainer/python_plan.h"
#include "core/trainer/saving.h"

namespace memtune::trainer {
namespace {

using report::Report;
using result::Measurement;
using result::Row;

const Trainer* const kTrainers[] = {&torchtune(), &axolotl(),  &torchtitan(), &transformers(),
                                    &trl(),       &ms_swift(), &megatron()};

void put_axes(const Trainer& trainer, const Row& row, const Report& report, Config& config) {
  const auto key = [&](std::string_view name, int64_t value) {
    config.keys.push_back(std::string(name) + ": " + std::to_string(value));
  };
  if (row.batch) key(trainer.batch_key, *row.batch);
  if (!trainer.accumulate_key.empty() && (row.passes > 1 || report.global_batch > 0))
    key(trainer.accumulate_key, row.passes);
  if (row.sequence && !trainer.sequence_key.empty()) key(trainer.sequence_key, *row.sequence);
  if (row.sequence && trainer.sequence_key.empty())
    config.notes.push_back("measured with sequences of " + std::to_string(*row.sequence) + ": " +
                           std::string(trainer.sequence_note));
}

std::string gradients_text(const Measurement& m) {
  if (!m.gradients.compared) return "not compared";
  if (m.gradients.equal) return "equal to those of " + m.gradients.against;
  return "differ from those of " + m.gradients.against + " in " + m.gradients.worst +
         ", by no more than its own runs do";
}

const Trainer& find_trainer(const std::string& name) {
  for (const Trainer* trainer : kTrainers)
    if (trainer->name == name) return *trainer;
  throw UsageError(unknown_name("trainer", name, trainers()));
}

std::optional<Config> config_of(const Trainer& trainer, const Row& row, const Report& report) {
  const std::optional<config::Strategy> strategy = config::Strategy::of_name(row.measurement.strategy);
  return strategy ? std::optional(trainer.config(Wanted(*strategy, report.blocks))) : std::nullopt;
}

bool is_exact(const std::optional<Config>& config) { return config && !config->nearest; }

bool fits(const Row& row, const Report& report) { return report.budget_bytes <= 0 || peak(row) <= report.budget_bytes; }

std::string needs(const Row& row) { return row.measurement.strategy + " with " + format_bytes(peak(row)); }

// What the trainer can do and was measured as that, at the row's batch and sequence.
std::vector<const Row*> expressible(const Trainer& trainer, const Row& row, const Report& report) {
  std::vector<const Row*> rows;
  for (const Row& other : report.rows)
    if (can_be_chosen(other.measurement) && same_axes(other, row) && is_exact(config_of(trainer, other, report)))
      rows.push_back(&other);
  return rows;
}

[[noreturn]] void refuse(const Trainer& trainer, const Row& row, const std::vector<const Row*>& rows,
                         const Report& report) {
  const std::string name(trainer.name);
  std::string text = "'" + row.measurement.strategy + "' is nothing that " + name + " can do, and of what it can ";
  if (rows.empty())
    throw UsageError(text + "nothing was measured: memtune sweep --strategy 'none;checkpoint:full;checkpoint:every=2;" +
                     "checkpoint:full,inputs=host' does, into the same folder with the same --model");
  const Row& least = **std::ranges::min_element(rows, {}, [](const Row* row) { return peak(*row); });
  throw UsageError(text + "nothing keeps the budget of " + format_bytes(report.budget_bytes) + ": the least is " +
                   needs(least));
}

// Of those that keep the budget, or need no more than the row where there is none, the best.
const Row& instead_of(const Trainer& trainer, const Row& row, const Report& report) {
  const std::vector<const Row*> rows = expressible(trainer, row, report);
  std::vector<const Row*> fitting;
  const int64_t most = report.budget_bytes > 0 ? report.budget_bytes : peak(row);
  std::ranges::copy_if(rows, std::back_inserter(fitting), [&](const Row* other) { return peak(*other) <= most; });
  const result::Ranking ranking{std::span<const Row>(report.rows)};
  if (!fitting.empty()) return result::choose(fitting, ranking, report.goal);
  if (rows.empty() || report.budget_bytes > 0) refuse(trainer, row, rows, report);
  return result::choose(rows, ranking, result::Goal::memory);
}

void check(const Row& row) {
  const Measurement& m = row.measurement;
  if (m.outcome == result::Outcome::ok) return;
  throw UsageError("'" + m.strategy + "' did not work here (" + to_string(m.outcome) + "): export a strategy that did");
}

// The row whose keys are written.
const Row& written(const Trainer& trainer, const Row& row, const Report& report) {
  check(row);
  if (did_nothing(row.measurement))
    if (const Row* reference = reference_row(report, row)) return written(trainer, *reference, report);
  if (!is_exact(config_of(trainer, row, report))) return instead_of(trainer, row, report);
  if (fits(row, report)) return row;
  throw UsageError("'" + row.measurement.strategy + "' needs " + format_bytes(peak(row)) +
                   ", more than the sweep's budget of " + format_bytes(report.budget_bytes) +
                   "; without --strategy the best that keeps it is written");
}

// Why it is not the one that was asked for, and what that one would have had.
void put_instead(const Trainer& trainer, const Row& asked, const Row& row, const Report& report, std::string& text) {
  const Measurement& m = asked.measurement;
  if (&asked == &row) return;
  put_comment(text, "asked for: ", m.strategy + ", " + measured_text(asked, report));
  if (did_nothing(m)) {
    put_comment(text, "but:       ",
                "it moved nothing and made nothing again, so it is " + row.measurement.strategy +
                    (m.no_effect.empty() ? "" : ": " + m.no_effect));
    return;
  }
  const std::string name(trainer.name), budget = report.budget_bytes > 0 ? format_bytes(report.budget_bytes) : "";
  const bool more = budget.empty() && peak(row) > peak(asked);
  put_comment(
      text, "but:       ",
      name + " has no keys for it; written is " + row.measurement.strategy + ", of what " + name +
          " can do and was measured " +
          (more ? "the least, which needs more memory" : "the best" + (budget.empty() ? "" : " within " + budget)));
  const std::optional<Config> lost = config_of(trainer, asked, report);
  const Config own = *config_of(trainer, row, report);
  for (const std::string& note : lost ? lost->notes : std::vector<std::string>())
    if (std::ranges::count(own.notes, note) == 0) put_comment(text, "           ", note);
}

void put_circumstances(const Report& report, std::string& text) {
  put_comment(text, "model:     ", report.model);
  put_comment(text, "settings:  ", report.settings);
  put_comment(
      text, "device:    ", report.device + (report.emulated ? " (a CPU emulates a GPU: the times are no GPU's)" : ""));
}

// The keys of saving behind the others, their notes behind theirs; what was chosen goes into the text.
void put_saving(const Trainer& trainer, const ChosenSaving& chosen, Config& config, std::string& text) {
  put_comment(text, "saving:    ", chosen.text);
  config.notes.insert(config.notes.end(), chosen.notes.begin(), chosen.notes.end());
  if (chosen.saving) trainer.save(*chosen.saving, config);
}

std::string end(const Config& config, std::string text) {
  for (const std::string& note : config.notes) put_comment(text, "note:      ", note);
  for (const std::string& key : config.keys) text += key + "\n";
  return text;
}

// Of a trainer whose keys of strategies memtune does not write.
std::string write_saving(const Trainer& trainer, const Row& row, const Report& report) {
  check(row);
  const std::string name(trainer.name);
  const std::optional<ChosenSaving> chosen = choose_saving(trainer, row, report);
  if (!chosen || !chosen->saving)
    throw UsageError("of " + name + " memtune writes the keys of saving alone, and there are none: " +
                     (chosen ? join(chosen->notes, "; ") : "memtune sweep --saves --mtbf TIME measures it"));
  Config config;
  std::string text;
  put_comment(text, "",
              "memtune " + report.version + ": saving in keys of " + name + " " + std::string(trainer.version) +
                  ", with steps as under " + row.measurement.strategy + ", of which there are no keys here");
  put_circumstances(report, text);
  put_comment(text, "measured:  ", measured_text(row, report));
  put_saving(trainer, *chosen, config, text);
  return end(config, std::move(text));
}

std::string write(const Trainer& trainer, const Row& asked, const Row& row, const Report& report) {
  const Measurement& m = row.measurement;
  const std::string name(trainer.name);
  Config config = *config_of(trainer, row, report);
  put_axes(trainer, row, report, config);
  std::string text;
  put_comment(
      text, "",
      "memtune " + report.version + ": " + m.strategy + " in keys of " + name + " " + std::string(trainer.version));
  put_instead(trainer, asked, row, report, text);
  put_circumstances(report, text);
  put_comment(text, "measured:  ", measured_text(row, report));
  put_comment(text, "whose:     ",
              "memtune's own figures of " + m.strategy + " with the loss and optimizer above; " + name +
                  "'s own loss, optimizer and data give others");
  if (report.budget_bytes > 0) put_comment(text, "budget:    ", format_bytes(report.budget_bytes));
  put_comment(text, "gradients: ", m.strategy == report.reference ? "the reference" : gradients_text(m));
  if (const auto chosen = choose_saving(trainer, row, report)) put_saving(trainer, *chosen, config, text);
  return end(config, std::move(text));
}

}  // namespace

std::span<const std::string> trainers() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const Trainer* trainer : kTrainers) names.emplace_back(trainer->name);
    names.emplace_back(kPython);
    return names;
  }();
  return names;
}

bool is_yaml(const std::string& trainer_name) { return trainer_name != kPython && find_trainer(trainer_name).yaml; }

std::string export_config(const std::string& trainer_name, const result::Row& row, const report::Report& report) {
  const Trainer& trainer = find_trainer(trainer_name);
  if (!trainer.config) return write_saving(trainer, row, report);
  return write(trainer, row, written(trainer, row, report), report);
}

}  // namespace memtune::trainer
