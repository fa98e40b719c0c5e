#include "core/sweep/predict/fit.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/answer/report/text/columns.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/layout.h"
#include "core/base/temporary_folder.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/measure/process/interrupt.h"
#include "core/plan/planner/estimated_costs.h"
#include "core/plan/planner/planner.h"
#include "core/sweep/predict/allocator_note.h"
#include "core/sweep/predict/multiplication_dtype.h"
#include "core/sweep/proposals/candidate_strategies_and_plans.h"
#include "core/sweep/proposals/recorded_costs.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using plan::MachineProfile;

// Context and libraries as on an H200 with PyTorch 2.11: 742 to 762 MiB. Other cards and releases differ.
constexpr int64_t kDeviceOverheadBytes = int64_t{750} << 20;
// Of a step's time, both ways: of measured steps on an H200, and on other cards, which were never measured.
constexpr double kMeasuredSpread = 0.20, kOtherSpread = 0.40;
constexpr int64_t kEndlessBytes = int64_t{1} << 44;  // no card has so much
constexpr int kPlayedSteps = 2;                      // until the allocator's segments are those of every later step
constexpr const char* kMeasuredCard = "NVIDIA H200";

struct PlayedPeaks {
  int64_t allocated_bytes = 0, reserved_bytes = 0;
};

struct RecordedShapes {
  plan::ProgramFacts program;
  std::string inputs;
  plan::RecordedOpCosts costs;
  std::map<std::string, PlayedPeaks> played;  // by strategy; of those that offload nothing
  std::vector<std::string> not_played;        // of these, those whose process failed
};

plan::TrialRequest request_of(const SweepSettings& settings, const MachineProfile& card,
                              const std::filesystem::path& folder) {
  plan::TrialRequest request = settings.request;
  request.training.device = "shapes:" + std::to_string(card.compute_capability);
  if (!settings.batches.empty()) request.training.batch = settings.batches.front();
  if (!settings.sequences.empty()) request.training.sequence = settings.sequences.front();
  request.plan.strategy = "none";
  request.envelope.costs = folder / "costs.json";
  return request;
}

// `command`: of memtune-trial. Files of its answer are in the folder.
TrialAnswer answer_of(const char* command, const plan::TrialRequest& request, const TemporaryFolder& folder,
                      const SweepSettings& settings, const std::function<void(const TrialProgress&)>& progress = {}) {
  const std::filesystem::path file = folder.path() / "request.json";
  write_file(file, json(request).dump() + "\n");
  return run_trial_process({{command, file.string()}, folder.path() / "log.txt", settings.limit, progress});
}

// Empty after a signal.
std::optional<RecordedShapes> record(const SweepSettings& settings, const MachineProfile& card,
                                     SweepListener& listener) {
  const TemporaryFolder folder("fit");
  const TrialAnswer answer = answer_of("inspect", request_of(settings, card, folder.path()), folder, settings,
                                       [&](const TrialProgress& progress) { listener.inspecting(progress); });
  if (process::interrupted()) return {};
  if (const auto* mistake = std::get_if<ReceivedUsageError>(&answer)) throw UsageError(mistake->message);
  if (const auto* failure = std::get_if<ProcessFailure>(&answer))
    throw UsageError("this model cannot be predicted from its shapes: " + failure->reason +
                     "; memtune sweep on a GPU measures it");
  const auto* model = std::get_if<InspectedModel>(&answer);
  if (model == nullptr) throw Error("memtune-trial inspect gave another answer");
  std::string why = "its costs are out of range";
  const std::optional<plan::RecordedOpCosts> costs = read_costs(folder.path(), model->program, &why);
  if (!costs) throw UsageError("this model cannot be predicted from its shapes: " + why);
  return RecordedShapes{model->program, join(model->inputs, ", "), *costs, {}, {}};
}

// Steps under the plan, with shapes alone: every allocation in its order. Offloaded tensors have no time to leave, so
// plans that offload are simulated instead. Nothing if the process fails.
std::optional<PlayedPeaks> play(const SweepSettings& settings, const MachineProfile& card, const plan::Plan& plan) {
  const TemporaryFolder folder("fit");
  plan::TrialRequest request = request_of(settings, card, folder.path());
  request.plan = plan;
  request.envelope.costs.clear();
  request.envelope.round = 1;  // compares and traces nothing
  request.training.warmup = kPlayedSteps;
  request.training.steps = 1;
  const TrialAnswer answer = answer_of("run", request, folder, settings);
  const auto* measured = std::get_if<result::Measurement>(&answer);
  if (measured == nullptr || measured->outcome != result::Outcome::ok) return {};
  return PlayedPeaks{measured->peak_bytes.allocated, measured->peak_bytes.reserved};
}

bool can_play(const plan::Plan& plan) { return !plan.offloads_activations() && !plan.offloads_states(); }

CandidateStrategiesAndPlans candidates_of(const SweepSettings& settings) {
  return {settings.strategies, settings.plans, settings.request.training, settings.fallback};
}

std::vector<plan::Plan> plans_of(const CandidateStrategiesAndPlans& candidates, const plan::ProgramFacts& program) {
  std::vector<plan::Plan> plans;
  for (const auto* tried : {&candidates.all(), &candidates.fallback()})
    for (const CandidateStrategyOrPlan& candidate : *tried) plans.push_back(candidate.make_plan(program));
  return plans;
}

// As many at a time as there are cores.
void play_all(const SweepSettings& settings, const MachineProfile& card, const std::vector<plan::Plan>& plans,
              RecordedShapes& shapes) {
  std::vector<const plan::Plan*> left;
  for (const plan::Plan& plan : plans)
    if (can_play(plan)) left.push_back(&plan);
  const size_t at_a_time = std::max(1U, std::thread::hardware_concurrency());
  for (size_t begin = 0; begin < left.size() && !process::interrupted(); begin += at_a_time) {
    std::vector<std::future<std::optional<PlayedPeaks>>> running;
    for (size_t i = begin; i < std::min(left.size(), begin + at_a_time); ++i)
      running.push_back(std::async(std::launch::async, [&, i] { return play(settings, card, *left[i]); }));
    for (size_t i = 0; i < running.size(); ++i)
      if (const auto peaks = running[i].get())
        shapes.played[left[begin + i]->strategy] = *peaks;
      else
        shapes.not_played.push_back(left[begin + i]->strategy);
  }
}

double spread(const MachineProfile& card) {
  return std::ranges::count(card.devices, kMeasuredCard) > 0 ? kMeasuredSpread : kOtherSpread;
}

std::string card_name(const MachineProfile& card) { return card.description.empty() ? card.name : card.description; }

StrategyFitsOnGpu fit_on(const RecordedShapes& recorded, const MachineProfile& card,
                         const GpuMemoryFitRequest& options) {
  const plan::TrainingSettings& training = options.sweep.request.training;
  plan::RecordedOpCosts costs = planner::estimated_costs(recorded.program, recorded.costs, card,
                                                         multiplication_dtype(recorded.program, training));
  costs.device_overhead_bytes = kDeviceOverheadBytes;
  const planner::PlanLimits limits{card.memory_bytes, training.host_budget_bytes, 0};
  const planner::Planner planner(recorded.program, costs,
                                 planner::tiers(limits, /*disk=*/false, /*states=*/true, costs));
  StrategyFitsOnGpu fit{card, {}, {}, "", 0, {}};
  const auto add = [&](const plan::Plan& plan) {
    planner::StepPrediction step = planner.predict_on_device(plan, card.memory_bytes);
    bool fits = step.short_bytes == 0 && step.required_bytes <= card.memory_bytes;
    if (!fits) step = planner.predict_on_device(plan, kEndlessBytes);
    if (const auto played = recorded.played.find(plan.strategy); played != recorded.played.end()) {
      const int64_t bytes = played->second.reserved_bytes + kDeviceOverheadBytes;
      const int64_t least_bytes = played->second.allocated_bytes + kDeviceOverheadBytes;
      // If it is more than the card has, the allocator may still release free segments, as in the simulation.
      if (bytes <= card.memory_bytes || !fits || least_bytes > card.memory_bytes) {
        fits = bytes <= card.memory_bytes;
        step.peak_bytes = played->second.allocated_bytes;
        step.required_bytes = bytes;
      }
    }
    fit.strategies.push_back({plan.strategy, step.peak_bytes, step.required_bytes, step.step_ms * (1 - spread(card)),
                              step.step_ms * (1 + spread(card)), fits});
  };
  for (const plan::Plan& plan : plans_of(candidates_of(options.sweep), recorded.program))
    if (planner.can_predict(plan)) add(plan);
  if (auto best = planner.plan(limits, "plan:" + format_bytes(card.memory_bytes))) {
    const planner::StepPrediction& step = best->predicted;
    fit.strategies.push_back({best->plan.strategy, step.peak_bytes, step.required_bytes,
                              step.step_ms * (1 - spread(card)), step.step_ms * (1 + spread(card)), true});
    if (!best->safe || step.short_bytes > 0) fit.note = allocator_note(*best);
    fit.plan = std::move(best->plan);
  }
  fit.least_bytes = planner.least_memory(limits, "least").predicted.required_bytes;
  if (fit.plan) fit.least_bytes = std::min(fit.least_bytes, fit.strategies.back().device_bytes);
  for (size_t i = 0; i < fit.strategies.size(); ++i)
    if (fit.strategies[i].fits && (!fit.fastest || fit.strategies[i].most_ms < fit.strategies[*fit.fastest].most_ms))
      fit.fastest = i;
  return fit;
}

std::string range_text(const StrategyFit& fit) { return fixed(fit.least_ms, 0) + " to " + fixed(fit.most_ms, 0); }

std::string in(const ByteDisplayUnit& unit, int64_t bytes) { return fixed(static_cast<double>(bytes) / unit.bytes, 2); }

std::string table_text(const std::vector<report::TableColumn>& columns, size_t rows, bool color) {
  std::string text = report::heads_text(columns, color);
  for (size_t row = 0; row < rows; ++row) text += report::row_text(columns, row, color);
  return text;
}

std::string one_card(const StrategyFitsOnGpu& fit, bool color) {
  int64_t largest_bytes = 0;
  for (const StrategyFit& row : fit.strategies) largest_bytes = std::max(largest_bytes, row.device_bytes);
  const ByteDisplayUnit unit = unit_for(largest_bytes);
  std::vector<report::TableColumn> columns = {{"", 0, true},
                                              {"strategy", 0, true},
                                              {"step ms"},
                                              {std::string("allocated ") + unit.name},
                                              {std::string("device ") + unit.name},
                                              {"fits", 0, true}};
  for (size_t i = 0; i < fit.strategies.size(); ++i) {
    const StrategyFit& row = fit.strategies[i];
    report::add_row(columns, {fit.fastest == i ? "*" : "", row.strategy, range_text(row), in(unit, row.allocated_bytes),
                              in(unit, row.device_bytes), row.fits ? "yes" : "no"});
  }
  std::string text = " " + card_name(fit.card) + ", " + format_bytes(fit.card.memory_bytes) + "\n\n" +
                     table_text(columns, fit.strategies.size(), color);
  if (fit.fastest) return text + "\n * predicted to be the fastest that fits\n";
  return text + "\n none fits: any plan needs at least " + format_bytes(fit.least_bytes) +
         "; --loss-impl chunked=8, --lora or a smaller --batch take less\n";
}

std::string several_cards(const std::vector<StrategyFitsOnGpu>& cards, bool color) {
  const ByteDisplayUnit unit = unit_for(cards.front().card.memory_bytes);
  std::vector<report::TableColumn> columns = {{"card", 0, true},
                                              {unit.name},
                                              {"fastest that fits", 0, true},
                                              {"step ms"},
                                              {std::string("device ") + unit.name},
                                              {std::string("least ") + unit.name}};
  for (const StrategyFitsOnGpu& fit : cards) {
    std::vector<std::string> cells = {
        fit.card.name, in(unit, fit.card.memory_bytes), "none fits", "", "", in(unit, fit.least_bytes)};
    if (fit.fastest) {
      const StrategyFit& best = fit.strategies[*fit.fastest];
      cells = {cells[0], cells[1], best.strategy, range_text(best), in(unit, best.device_bytes), cells[5]};
    }
    report::add_row(columns, std::move(cells));
  }
  return table_text(columns, cards.size(), color);
}

}  // namespace

bool GpuMemoryFitReport::any_fits() const {
  return std::ranges::any_of(cards, [](const StrategyFitsOnGpu& card) { return card.fastest.has_value(); });
}

std::optional<GpuMemoryFitReport> predict_fit(const GpuMemoryFitRequest& options, SweepListener& listener) {
  const process::InterruptScope interrupts;
  std::map<int64_t, RecordedShapes> recorded;  // by compute capability, which decides on kernels
  GpuMemoryFitReport report;
  std::vector<std::string> lacking;
  std::string dtype;
  for (const MachineProfile& card : options.cards) {
    if (card.compute_capability == 0)
      throw UsageError("machine '" + card.name + "' has no compute_capability, which decides on kernels");
    auto found = recorded.find(card.compute_capability);
    if (found == recorded.end()) {
      std::optional<RecordedShapes> shapes = record(options.sweep, card, listener);
      if (!shapes) return {};
      found = recorded.emplace(card.compute_capability, std::move(*shapes)).first;
      play_all(options.sweep, card, plans_of(candidates_of(options.sweep), found->second.program), found->second);
      if (process::interrupted()) return {};
    }
    dtype = multiplication_dtype(found->second.program, options.sweep.request.training);
    if (options.cards.size() > 1 && !card.tflops.contains(dtype)) {
      lacking.push_back(card.name);
      continue;
    }
    listener.planning(report.cards.size() + 1, options.cards.size());
    report.cards.push_back(fit_on(found->second, card, options));
    if (const std::string& note = report.cards.back().note; !note.empty()) report.notes.push_back(note);
  }
  if (report.cards.empty())
    throw UsageError("no card has " + dtype + ": " + join(lacking, ", ") + "; try --dtype fp16");
  const plan::TrainingSettings& training = options.sweep.request.training;
  const RecordedShapes& first = recorded.begin()->second;
  report.title = options.sweep.model + " · " + first.inputs + ", " + training.optimizer + ", " + dtype;
  report.notes.insert(report.notes.end(), options.sweep.notes.begin(), options.sweep.notes.end());
  report.notes.push_back("bytes are simulated from shapes; context and libraries count as " +
                         format_bytes(kDeviceOverheadBytes) + ", as measured on an H200");
  std::set<std::string> not_played;
  for (const auto& [capability, shapes] : recorded)
    not_played.insert(shapes.not_played.begin(), shapes.not_played.end());
  for (const std::string& strategy : not_played)
    report.notes.push_back(strategy + " did not run on shapes: its memory is simulated, which is less exact");
  report.notes.push_back("step ms is a range: rates of the card's data sheet, and a host like that of the H200");
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
  for (const StrategyFitsOnGpu& fit : report.cards) {
    json strategies = json::array();
    for (const StrategyFit& row : fit.strategies)
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
