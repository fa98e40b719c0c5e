#include "core/sweep/predict/largest_fit.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/answer/report/text/columns.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/predict/multiplication_dtype.h"
#include "core/sweep/proposals/candidate_strategies_and_user_plan_files.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

constexpr int64_t kTokens = 256;  // lengths are multiples
constexpr int64_t kMost = 1 << 20;
constexpr int kMostTried = 40;  // per strategy; memory that grows linearly needs four or five

// In units of the axis: samples, or kTokens tokens.
class LargestFitSearch {
 public:
  LargestFitSearch(const GpuMemoryFitRequest& options, LargestAxis axis)
      : settings_(options.sweep), card_(options.cards.front()), axis_(axis) {}

  int64_t amount(int64_t units) const { return axis_ == LargestAxis::batch ? units : units * kTokens; }

  // At the smallest; nothing after a signal.
  const ShapeOnlyStepFactsAndCosts* first() { return recorded(1); }
  bool can_predict(const CandidateStrategyOrUserPlanFile& candidate) {
    const ShapeOnlyStepFactsAndCosts& shapes = *first();
    return ShapeOnlyStepFitAndTimePredictor(shapes, card_, settings_.request.training)
        .can_predict(candidate.make_plan(shapes.program));
  }

  // Nothing after a signal.
  std::optional<LargestFit> find(const CandidateStrategyOrUserPlanFile& candidate) {
    std::map<int64_t, StrategyGpuMemoryFit> points;  // by units
    int64_t low = 0, high = kMost + 1;
    std::string beyond;
    int64_t units = 1;
    for (int tried = 0; low + 1 < high && tried < kMostTried; ++tried) {
      std::string failure;  // as of a length beyond what the model has positions for
      const std::optional<StrategyGpuMemoryFit> fit = fit_at(candidate, units, failure);
      if (process::interrupted()) return {};
      if (!fit && low == 0) throw UsageError(candidate.name() + ": " + failure);
      if (fit) points.emplace(units, *fit);
      if (!fit || !fit->fits) beyond = failure;
      (fit && fit->fits ? low : high) = units;
      units = beyond.empty() ? next(points, low, high) : std::midpoint(low, high);
    }
    return low > 0 ? LargestFit{amount(low), points.at(low), beyond} : LargestFit{0, points.begin()->second, ""};
  }

 private:
  // Where a line through the two nearest points reaches the card's memory.
  int64_t next(const std::map<int64_t, StrategyGpuMemoryFit>& points, int64_t low, int64_t high) const {
    int64_t guess = 2 * low;
    if (points.size() > 1) {
      auto right = points.upper_bound(low);
      if (right == points.end()) --right;
      const auto left = std::prev(right);
      const double slope = static_cast<double>(right->second.device_bytes - left->second.device_bytes) /
                           static_cast<double>(right->first - left->first);
      const auto room = static_cast<double>(card_.memory_bytes - left->second.device_bytes);
      if (slope > 0) guess = left->first + static_cast<int64_t>(std::min(double{kMost}, std::max(0.0, room / slope)));
    }
    return std::clamp(guess, low + 1, std::max(low + 1, high - 1));
  }

  EngineSweepSettings at(int64_t units) const {
    EngineSweepSettings settings = settings_;
    (axis_ == LargestAxis::batch ? settings.batches : settings.sequences) = {amount(units)};
    return settings;
  }

  const ShapeOnlyStepFactsAndCosts* recorded(int64_t units) {
    const auto found = recorded_.find(units);
    if (found != recorded_.end()) return &found->second;
    auto shapes = record_on_shapes(at(units), card_);
    return shapes ? &recorded_.emplace(units, std::move(*shapes)).first->second : nullptr;
  }

  // Nothing after a signal, and if the step does not run: then `failure` says why.
  std::optional<StrategyGpuMemoryFit> fit_at(const CandidateStrategyOrUserPlanFile& candidate, int64_t units,
                                             std::string& failure) try {
    const ShapeOnlyStepFactsAndCosts* shapes = recorded(units);
    if (shapes == nullptr) return {};
    const ShapeOnlyStepFitAndTimePredictor predictor(*shapes, card_, settings_.request.training);
    const plan::Plan plan = candidate.make_plan(shapes->program);
    std::optional<ShapeOnlyStepPeakBytes> peaks;
    if (runs_on_shapes(plan) && !(peaks = run_on_shapes(at(units), card_, plan))) {
      failure = "its step does not run on shapes";
      return {};
    }
    return predictor.predict(plan, peaks);
  } catch (const UsageError& error) {
    if (units == 1) throw;
    failure = error.what();
    return {};
  }

  const EngineSweepSettings& settings_;
  const plan::MachineProfile& card_;
  const LargestAxis axis_;
  std::map<int64_t, ShapeOnlyStepFactsAndCosts> recorded_;  // by units
};

double most_ms_of_one(const LargestFit& found) { return found.fit.most_ms / static_cast<double>(found.largest); }

// Of the first input: 512 of "input_ids:int64[2,256]<32000".
int64_t elements_of(const std::string& inputs) {
  int64_t elements = 1;
  const size_t begin = inputs.find('['), end = inputs.find(']');
  if (begin == std::string::npos || end == std::string::npos) return elements;
  for (const std::string& size : split(inputs.substr(begin + 1, end - begin - 1), ',')) elements *= std::stoll(size);
  return elements;
}

bool is_batch(const LargestFitReport& report) { return report.axis == LargestAxis::batch; }

}  // namespace

std::optional<LargestFitReport> find_largest_fit(const GpuMemoryFitRequest& options, LargestAxis axis,
                                                 SweepListener& listener) {
  if (options.cards.size() != 1) throw UsageError("the largest batch or length is found for one --card");
  const process::InterruptScope interrupts;
  const plan::TrainingSettings& training = options.sweep.request.training;
  LargestFitSearch search(options, axis);
  const ShapeOnlyStepFactsAndCosts* first = search.first();
  if (first == nullptr) return {};
  const CandidateStrategiesAndUserPlanFiles candidates(options.sweep.strategies, options.sweep.plans, training,
                                                       options.sweep.fallback);
  std::vector<const CandidateStrategyOrUserPlanFile*> tried;
  for (const CandidateStrategyOrUserPlanFile& candidate : candidates.all()) tried.push_back(&candidate);
  if (!candidates.fallback().empty()) tried.push_back(&candidates.fallback().back());
  std::vector<std::string> notes = options.sweep.notes;
  std::erase_if(tried, [&](const CandidateStrategyOrUserPlanFile* candidate) {
    if (search.can_predict(*candidate)) return false;
    notes.push_back(candidate->name() + " is not predicted for this training");
    return true;
  });
  LargestFitReport report;
  report.title = options.sweep.model + " · " + first->inputs + " at the least, " + training.optimizer + ", " +
                 multiplication_dtype(first->program, training);
  report.card = options.cards.front();
  report.axis = axis;
  report.samples = training.accumulate * (axis == LargestAxis::batch ? 1 : elements_of(first->inputs) / kTokens);
  report.notes = std::move(notes);
  for (size_t i = 0; i < tried.size(); ++i) {
    listener.planning(i + 1, tried.size());
    const std::optional<LargestFit> found = search.find(*tried[i]);
    if (!found) return {};
    if (found->largest > 0 &&
        (!report.fastest || most_ms_of_one(*found) < most_ms_of_one(report.strategies[*report.fastest])))
      report.fastest = report.strategies.size();
    report.strategies.push_back(*found);
  }
  std::ranges::copy(basis_notes(), std::back_inserter(report.notes));
  for (const LargestFit& found : report.strategies)
    if (!found.beyond.empty())
      report.notes.push_back(found.fit.strategy + ": more than " + std::to_string(found.largest) +
                             " was tried and does not run: " + found.beyond);
  if (!report.fastest)
    report.notes.push_back(
        "none of these fits; without auto, memtune fit looks for a plan, too. --loss-impl chunked=8, --lora, --load-in "
        "4bit and --optimizer-in-backward take less");
  if (axis == LargestAxis::sequence)
    report.notes.push_back("lengths are multiples of " + std::to_string(kTokens) + " tokens");
  return report;
}

std::string to_text(const LargestFitReport& report, report::TerminalCapabilities style) {
  const double tokens = is_batch(report) ? 1 : 1000;  // in the column of times
  std::vector<report::TableColumn> columns = {{"", 0, true},
                                              {"strategy", 0, true},
                                              {is_batch(report) ? "largest batch" : "longest"},
                                              {is_batch(report) ? "ms a sample" : "ms per 1000 tokens"},
                                              {"device GiB"}};
  const auto range = [](double least, double most, int digits) {
    return fixed(least, digits) + " to " + fixed(most, digits);
  };
  const auto gib = [](int64_t bytes) { return fixed(static_cast<double>(bytes) / (int64_t{1} << 30), 2); };
  for (size_t i = 0; i < report.strategies.size(); ++i) {
    const auto& [largest, fit, beyond] = report.strategies[i];
    if (largest == 0) {
      report::add_row(columns, {"", fit.strategy, "none fits", "", gib(fit.device_bytes)});
      continue;
    }
    const double each = static_cast<double>(largest * report.samples) / tokens;
    report::add_row(columns, {report.fastest == i ? "*" : "", fit.strategy, std::to_string(largest),
                              range(fit.least_ms / each, fit.most_ms / each, 0), gib(fit.device_bytes)});
  }
  std::string text = " " + printable_line(report.title) + "\n " + report.card.description + ", " +
                     format_bytes(report.card.memory_bytes) + "\n\n" + report::heads_text(columns, style.color);
  for (size_t row = 0; row < report.strategies.size(); ++row) text += report::row_text(columns, row, style.color);
  if (report.fastest)
    text +=
        std::string("\n * predicted to take the least time for a ") + (is_batch(report) ? "sample" : "token") + "\n";
  for (const std::string& note : report.notes)
    for (const std::string& line : wrap("note: " + note, style.width - 1)) text += " " + line + "\n";
  return text;
}

json to_json(const LargestFitReport& report) {
  json strategies = json::array();
  for (const auto& [largest, fit, beyond] : report.strategies)
    strategies.push_back({{"strategy", fit.strategy},
                          {is_batch(report) ? "largest_batch" : "longest_sequence", largest},
                          {"beyond", beyond},
                          {"allocated_bytes", fit.allocated_bytes},
                          {"device_bytes", fit.device_bytes},
                          {"least_ms", fit.least_ms},
                          {"most_ms", fit.most_ms}});
  json answer = {{"version", 1},
                 {"title", report.title},
                 {"card", report.card.name},
                 {"memory_bytes", report.card.memory_bytes},
                 {"strategies", strategies},
                 {"notes", report.notes}};
  if (report.fastest) answer["fastest"] = report.strategies[*report.fastest].fit.strategy;
  return answer;
}

}  // namespace memtune::sweep
