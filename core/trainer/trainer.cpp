#include "core/trainer/trainer.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/trainer/config.h"

namespace memtune::trainer {
namespace {

using report::Report;
using result::Measurement;
using result::Row;

const Trainer* const kTrainers[] = {&torchtune(), &axolotl()};

void put_axes(const Trainer& trainer, const Row& row, Config& config) {
  const auto key = [&](std::string_view name, int64_t value) {
    config.keys.push_back(std::string(name) + ": " + std::to_string(value));
  };
  if (row.batch) key(trainer.batch_key, *row.batch);
  if (row.sequence && !trainer.sequence_key.empty()) key(trainer.sequence_key, *row.sequence);
  if (row.sequence && trainer.sequence_key.empty())
    config.notes.push_back("measured with sequences of " + std::to_string(*row.sequence) + ": " +
                           std::string(trainer.sequence_note));
}

std::string step_text(const Row& row, const Row* base) {
  const result::StepTime& step = row.measurement.step_ms;
  std::string text =
      "step " + fixed(step.median, 1) + " ms (" + fixed(step.low, 1) + " to " + fixed(step.high, 1) + ")";
  if (base && base != &row && base->measurement.step_ms.median > 0) {
    text += ", " + fixed(step.median / base->measurement.step_ms.median, 2) + " x " + base->measurement.strategy;
  }
  return text;
}

std::string peak_text(const Row& row, const Row* base) {
  int64_t peak = row.measurement.peak_bytes.allocated;
  std::string text = "peak " + format_bytes(peak);
  if (!base || base == &row) return text;
  int64_t saved = base->measurement.peak_bytes.allocated - peak;
  return text + ", " + format_bytes(std::abs(saved)) + (saved < 0 ? " more than " : " less than ") +
         base->measurement.strategy;
}

std::string measured(const Row& row, const Report& report) {
  const Row* base = reference_row(report, row);
  return step_text(row, base) + "; " + peak_text(row, base);
}

std::string gradients_text(const Measurement& m) {
  if (!m.gradients.compared) return "not compared";
  if (m.gradients.equal) return "equal to those of " + m.gradients.against;
  return "differ from those of " + m.gradients.against + " in " + m.gradients.worst +
         ", by no more than its own runs do";
}

std::string nearest_text(const std::string& nearest, const Row& row, const Report& report) {
  for (const Row& other : report.rows) {
    if (other.measurement.strategy == nearest && other.measurement.outcome == result::Outcome::ok &&
        other.batch == row.batch && other.sequence == row.sequence) {
      return measured(other, report);
    }
  }
  return "not measured yet; memtune sweep --strategy " + nearest + " does";
}

void put_comment(std::string& text, const std::string& label, const std::string& value) {
  if (value.empty()) return;
  std::string lead = "# " + label;
  for (const std::string& line : wrap(value, 100 - display_width(lead))) {
    text += lead + line + "\n";
    lead = "#" + std::string(display_width(lead) - 1, ' ');
  }
}

const Trainer& find_trainer(const std::string& name) {
  for (const Trainer* trainer : kTrainers)
    if (trainer->name == name) return *trainer;
  throw UsageError(unknown_name("trainer", name, trainers()));
}

Wanted read(const Measurement& m) {
  if (m.outcome != result::Outcome::ok)
    throw UsageError("'" + m.strategy + "' did not work here (" + to_string(m.outcome) +
                     "): export a strategy that did");
  try {
    return Wanted(config::Strategy::parse(m.strategy));
  } catch (const UsageError&) {
    std::vector<std::string> known;
    for (const config::StrategyInfo& info : config::strategies()) known.emplace_back(info.name);
    throw UsageError("'" + m.strategy + "' has no counterpart in trainers; these have: " + join(known, ", "));
  }
}

std::string write(const Trainer& trainer, const Config& config, const Row& row, const Report& report) {
  const Measurement& m = row.measurement;
  const std::string name(trainer.name);
  std::string text;
  put_comment(
      text, "",
      "memtune " + report.version + ": " + m.strategy + " in keys of " + name + " " + std::string(trainer.version));
  put_comment(text, "model:     ", report.model);
  put_comment(text, "settings:  ", report.settings);
  put_comment(text, "device:    ", report.device + (report.emulated ? " (played by the CPU: no times of a GPU)" : ""));
  put_comment(text, "measured:  ", measured(row, report));
  put_comment(text, "gradients: ", m.strategy == report.reference ? "the reference" : gradients_text(m));
  if (config.nearest) {
    const std::string nearest = to_string(*config.nearest);
    put_comment(text, "rounded:   ", "to " + nearest + ", the nearest that " + name + " can do");
    put_comment(text, "nearest:   ", nearest_text(nearest, row, report));
  }
  for (const std::string& note : config.notes) put_comment(text, "note:      ", note);
  for (const std::string& key : config.keys) text += key + "\n";
  return text;
}

}  // namespace

std::span<const std::string> trainers() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const Trainer* trainer : kTrainers) names.emplace_back(trainer->name);
    return names;
  }();
  return names;
}

std::string export_config(const std::string& trainer_name, const result::Row& row, const report::Report& report) {
  const Trainer& trainer = find_trainer(trainer_name);
  Config config = trainer.config(read(row.measurement));
  put_axes(trainer, row, config);
  return write(trainer, config, row, report);
}

}  // namespace memtune::trainer
