#include "core/sweep/predict/fit.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/answer/report/text/columns.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/predict/allocator_note.h"
#include "core/sweep/predict/multiplication_dtype.h"
#include "core/sweep/proposals/candidate_strategies_and_user_plan_files.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using plan::MachineProfile;

// Of one compute capability, which decides on kernels.
struct MeasuredShapes {
  ShapeOnlyStepFactsAndCosts recorded;
  std::map<std::string, ShapeOnlyStepPeakBytes> peaks;  // by strategy; of those that ran on shapes
  std::vector<std::string> failed;                      // those whose process failed
};

CandidateStrategiesAndUserPlanFiles candidates_of(const EngineSweepSettings& settings) {
  return {settings.strategies, settings.plans, settings.request.training, settings.fallback};
}

std::vector<plan::Plan> plans_of(const CandidateStrategiesAndUserPlanFiles& candidates,
                                 const plan::ProgramFacts& program) {
  std::vector<plan::Plan> plans;
  for (const auto* tried : {&candidates.all(), &candidates.fallback()})
    for (const CandidateStrategyOrUserPlanFile& candidate : *tried) plans.push_back(candidate.make_plan(program));
  return plans;
}

// As many at a time as there are cores.
void run_all(const EngineSweepSettings& settings, const MachineProfile& card, const std::vector<plan::Plan>& plans,
             MeasuredShapes& shapes) {
  std::vector<const plan::Plan*> left;
  for (const plan::Plan& plan : plans)
    if (runs_on_shapes(plan)) left.push_back(&plan);
  const size_t at_a_time = std::max(1U, std::thread::hardware_concurrency());
  for (size_t begin = 0; begin < left.size() && !process::interrupted(); begin += at_a_time) {
    std::vector<std::future<std::optional<ShapeOnlyStepPeakBytes>>> running;
    for (size_t i = begin; i < std::min(left.size(), begin + at_a_time); ++i)
      running.push_back(std::async(std::launch::async, [&, i] { return run_on_shapes(settings, card, *left[i]); }));
    for (size_t i = 0; i < running.size(); ++i)
      if (const auto peaks = running[i].get())
        shapes.peaks[left[begin + i]->strategy] = *peaks;
      else
        shapes.failed.push_back(left[begin + i]->strategy);
  }
}

std::string card_name(const MachineProfile& card) { return card.description.empty() ? card.name : card.description; }

GpuStrategyFitsAndPlan fit_on(const MeasuredShapes& shapes, const MachineProfile& card,
                              const EngineSweepSettings& settings) {
  const ShapeOnlyStepFitAndTimePredictor predictor(shapes.recorded, card, settings.request.training);
  GpuStrategyFitsAndPlan fit{card, {}, {}, "", 0, {}};
  for (const plan::Plan& plan : plans_of(candidates_of(settings), shapes.recorded.program)) {
    if (!predictor.can_predict(plan)) continue;
    const auto peaks = shapes.peaks.find(plan.strategy);
    fit.strategies.push_back(
        predictor.predict(plan, peaks != shapes.peaks.end() ? std::optional(peaks->second) : std::nullopt));
  }
  if (auto best = predictor.best_plan("plan:" + format_bytes(card.memory_bytes))) {
    fit.strategies.push_back(predictor.fit_of(*best));
    if (!best->safe || best->predicted.short_bytes > 0) fit.note = allocator_note(*best);
    fit.plan = std::move(best->plan);
  }
  fit.least_bytes = predictor.least_bytes();
  if (fit.plan) fit.least_bytes = std::min(fit.least_bytes, fit.strategies.back().device_bytes);
  for (size_t i = 0; i < fit.strategies.size(); ++i)
    if (fit.strategies[i].fits && (!fit.fastest || fit.strategies[i].most_ms < fit.strategies[*fit.fastest].most_ms))
      fit.fastest = i;
  return fit;
}

std::string range_text(const StrategyGpuMemoryFit& fit) {
  return fixed(fit.least_ms, 0) + " to " + fixed(fit.most_ms, 0);
}

std::string in(const ByteDisplayUnit& unit, int64_t bytes) { return fixed(static_cast<double>(bytes) / unit.bytes, 2); }

std::string table_text(const std::vector<report::TableColumn>& columns, size_t rows, bool color) {
  std::string text = report::heads_text(columns, color);
  for (size_t row = 0; row < rows; ++row) text += report::row_text(columns, row, color);
  return text;
}

std::string one_card(const GpuStrategyFitsAndPlan& fit, bool color) {
  int64_t largest_bytes = 0;
  for (const StrategyGpuMemoryFit& row : fit.strategies) largest_bytes = std::max(largest_bytes, row.device_bytes);
  const ByteDisplayUnit unit = unit_for(largest_bytes);
  std::vector<report::TableColumn> columns = {{"", 0, true},
                                              {"strategy", 0, true},
                                              {"step ms"},
                                              {std::string("allocated ") + unit.name},
                                              {std::string("device ") + unit.name},
                                              {"fits", 0, true}};
  for (size_t i = 0; i < fit.strategies.size(); ++i) {
    const StrategyGpuMemoryFit& row = fit.strategies[i];
    report::add_row(columns, {fit.fastest == i ? "*" : "", row.strategy, range_text(row), in(unit, row.allocated_bytes),
                              in(unit, row.device_bytes), row.fits ? "yes" : "no"});
  }
  std::string text = " " + card_name(fit.card) + ", " + format_bytes(fit.card.memory_bytes) + "\n\n" +
                     table_text(columns, fit.strategies.size(), color);
  if (fit.fastest) return text + "\n * predicted to be the fastest that fits\n";
  const bool in_pieces = fit.least_bytes <= fit.card.memory_bytes;
  return text + "\n none fits: " + (in_pieces ? "the least plan takes " : "any plan needs at least ") +
         format_bytes(fit.least_bytes) + (in_pieces ? ", but leaves free memory in pieces" : "") +
         "; --loss-impl chunked=8, --lora or a smaller --batch take less\n";
}

std::string several_cards(const std::vector<GpuStrategyFitsAndPlan>& cards, bool color) {
  const ByteDisplayUnit unit = unit_for(cards.front().card.memory_bytes);
  std::vector<report::TableColumn> columns = {{"card", 0, true},
                                              {unit.name},
                                              {"fastest that fits", 0, true},
                                              {"step ms"},
                                              {std::string("device ") + unit.name},
                                              {std::string("least ") + unit.name}};
  for (const GpuStrategyFitsAndPlan& fit : cards) {
    std::vector<std::string> cells = {
        fit.card.name, in(unit, fit.card.memory_bytes), "none fits", "", "", in(unit, fit.least_bytes)};
    if (fit.fastest) {
      const StrategyGpuMemoryFit& best = fit.strategies[*fit.fastest];
      cells = {cells[0], cells[1], best.strategy, range_text(best), in(unit, best.device_bytes), cells[5]};
    }
    report::add_row(columns, std::move(cells));
  }
  return table_text(columns, cards.size(), color);
}

}  // namespace

bool GpuMemoryFitReport::any_fits() const {
  return std::ranges::any_of(cards, [](const GpuStrategyFitsAndPlan& card) { return card.fastest.has_value(); });
}

std::optional<GpuMemoryFitReport> predict_fit(const GpuMemoryFitRequest& options, SweepListener& listener) {
  const process::InterruptScope interrupts;
  std::map<int64_t, MeasuredShapes> measured;  // by compute capability, which decides on kernels
  GpuMemoryFitReport report;
  std::vector<std::string> lacking;
  std::string dtype;
  for (const MachineProfile& card : options.cards) {
    auto found = measured.find(card.compute_capability);
    if (found == measured.end()) {
      std::optional<ShapeOnlyStepFactsAndCosts> shapes = record_on_shapes(
          options.sweep, card, [&](const TrialPhaseProgress& progress) { listener.inspecting(progress); });
      if (!shapes) return {};
      found = measured.emplace(card.compute_capability, MeasuredShapes{std::move(*shapes), {}, {}}).first;
      run_all(options.sweep, card, plans_of(candidates_of(options.sweep), found->second.recorded.program),
              found->second);
      if (process::interrupted()) return {};
    }
    dtype = multiplication_dtype(found->second.recorded.program, options.sweep.request.training);
    if (options.cards.size() > 1 && !card.tflops.contains(dtype)) {
      lacking.push_back(card.name);
      continue;
    }
    listener.planning(report.cards.size() + 1, options.cards.size());
    report.cards.push_back(fit_on(found->second, card, options.sweep));
    if (const std::string& note = report.cards.back().note; !note.empty()) report.notes.push_back(note);
  }
  if (report.cards.empty())
    throw UsageError("no card has " + dtype + ": " + join(lacking, ", ") + "; try --dtype fp16");
  const plan::TrainingSettings& training = options.sweep.request.training;
  const ShapeOnlyStepFactsAndCosts& first = measured.begin()->second.recorded;
  report.blocks = static_cast<int>(first.program.blocks.size());
  report.title = options.sweep.model + " · " + first.inputs + ", " + training.optimizer + ", " + dtype;
  report.notes.insert(report.notes.end(), options.sweep.notes.begin(), options.sweep.notes.end());
  std::ranges::copy(basis_notes(), std::back_inserter(report.notes));
  std::set<std::string> failed;
  for (const auto& [capability, shapes] : measured) failed.insert(shapes.failed.begin(), shapes.failed.end());
  for (const std::string& strategy : failed)
    report.notes.push_back(strategy + " did not run on shapes: its memory is simulated, which is less exact");
  if (training.accumulate > 1)
    report.notes.push_back(
        "with several micro-batches, strategies that offload keep more memory free: up to 20 % more was measured");
  if (!lacking.empty()) report.notes.push_back("cards without " + dtype + ": " + join(lacking, ", "));
  return report;
}

std::string to_text(const GpuMemoryFitReport& report, report::TerminalCapabilities style) {
  std::string text = " " + printable_line(report.title) + "\n";
  text += report.cards.size() == 1 ? one_card(report.cards.front(), style.color)
                                   : "\n" + several_cards(report.cards, style.color);
  for (const std::string& note : report.notes)
    for (const std::string& line : wrap("note: " + note, style.width - 1)) text += " " + line + "\n";
  return text;
}

json to_json(const GpuMemoryFitReport& report) {
  json cards = json::array();
  for (const GpuStrategyFitsAndPlan& fit : report.cards) {
    json strategies = json::array();
    for (const StrategyGpuMemoryFit& row : fit.strategies)
      strategies.push_back({{"strategy", row.strategy},
                            {"allocated_bytes", row.allocated_bytes},
                            {"device_bytes", row.device_bytes},
                            {"least_ms", row.least_ms},
                            {"most_ms", row.most_ms},
                            {"fits", row.fits}});
    json card = {{"card", fit.card.name},
                 {"memory_bytes", fit.card.memory_bytes},
                 {"least_bytes", fit.least_bytes},
                 {"strategies", strategies}};
    if (fit.fastest) card["fastest"] = fit.strategies[*fit.fastest].strategy;
    cards.push_back(card);
  }
  return {{"version", 1}, {"title", report.title}, {"cards", cards}, {"notes", report.notes}};
}

}  // namespace memtune::sweep
