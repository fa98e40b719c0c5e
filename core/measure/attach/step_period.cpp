#include "core/measure/attach/step_period.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/layout.h"
#include "core/base/median.h"
#include "core/base/text.h"

namespace memtune::attach {
namespace {

constexpr double kWaiting = 0.2;  // of a step, from which on waiting for data is reported
constexpr size_t kNumbers = 4;    // of steps that a text lists

using Steps = std::vector<const StepRecord*>;

Steps measured(const TrainingProcessRecords& records) {
  Steps steps;
  for (const StepRecord& step : records.steps)
    if (step.phase == MeasurementPhase::measured && step.ms) steps.push_back(&step);
  return steps;
}

double own_ms(const StepRecord& step) { return step.ms.value_or(0) - step.save_ms; }

template <typename Of>
double mean(const Steps& steps, Of of) {
  double sum = 0;
  for (const StepRecord* step : steps) sum += of(*step);
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

std::string numbers_of(const Steps& steps) {
  std::vector<std::string> numbers;
  for (const StepRecord* step : steps) numbers.push_back(std::to_string(step->number));
  if (numbers.size() > kNumbers) {
    numbers.resize(kNumbers);
    numbers.emplace_back("...");
  }
  return (steps.size() == 1 ? "step " : "steps ") + join(numbers, ", ");
}

// What most of the additional time of the longer steps is.
std::string what_fills(const Steps& longer, const Steps& rest) {
  const auto more = [&](auto of) { return mean(longer, of) - mean(rest, of); };
  const double extra = more(own_ms), runs = more([](const StepRecord&s) { return double(s.without_gradients); });
  const double outside = more([](const StepRecord& s) { return s.outside_ms; });
  if (more([](const StepRecord& s) { return s.wait_ms; }) > extra / 2) return "waiting for a batch";
  const std::string forwards =
      runs >= 1 ? std::to_string(std::lround(runs)) + " runs of the model without gradients (evaluation, generation)"
                : "";
  if (outside > extra / 2)
    return "work outside of forward, backward and update" + (runs >= 1 ? ": " + forwards : std::string());
  if (runs >= 1) return forwards;
  if (more([](const StepRecord& s) { return double(s.losses.size()); }) >= 0.5) return "more backward passes";
  return "longer passes";
}

std::string first_step_text(const TrainingProcessRecords& records) {
  return "before step 1 the model ran " + std::to_string(records.steps.front().without_gradients) +
         " times without gradients (evaluation, generation), and before none of the other " +
         std::to_string(records.steps.size() - 1) + " steps";
}

constexpr const char* kNotSeen = ": its time is in no step; more --steps would show the next one";

}  // namespace

int64_t steps_of_a_sample(const StepPeriodicityRecord& period, int64_t count) {
  if (period.steps > 0) return period.steps <= count ? period.steps : 1;
  return period.differing.size() > 1 ? std::max<int64_t>(1, count / 2) : 1;
}

std::vector<double> means_of(const std::vector<double>& step_ms, int64_t steps) {
  const auto size = static_cast<size_t>(std::max<int64_t>(1, steps));
  std::vector<double> means;
  for (size_t end = step_ms.size() % size + size; end <= step_ms.size(); end += size) {
    const auto last = step_ms.begin() + static_cast<std::ptrdiff_t>(end);
    means.push_back(std::accumulate(last - static_cast<std::ptrdiff_t>(size), last, 0.0) / static_cast<double>(size));
  }
  return means;
}

std::string period_text(const TrainingProcessRecords& records, int64_t steps_of_a_sample) {
  const StepPeriodicityRecord& period = *records.period;
  Steps differing, rest;
  for (const StepRecord* step : measured(records)) {
    const bool differs = std::ranges::find(period.differing, step->number) != period.differing.end();
    (differs ? differing : rest).push_back(step);
  }
  if (differing.empty()) return first_step_text(records) + kNotSeen;
  const double ms = mean(differing, own_ms), rest_ms = mean(rest, own_ms);
  const std::string filled = ms >= rest_ms ? what_fills(differing, rest) : what_fills(rest, differing);
  const std::string than = ", the others " + ms_text(rest_ms) + ". What takes longer: " + filled;
  if (steps_of_a_sample <= 1)
    return numbers_of(differing) + (differing.size() == 1 ? " takes " : " take ") + ms_text(ms) + than +
           ". Not enough steps were measured to see how often that comes, and the time of a step is the median: take "
           "more --steps";
  const std::string over = ". The time of a step is the mean over ";
  if (period.steps == 0)
    return numbers_of(differing) + " take " + ms_text(ms) + ", in no period" + than + over +
           std::to_string(steps_of_a_sample) + " steps";
  const auto count = static_cast<int64_t>(differing.size() + rest.size()) / period.steps;
  const auto in_one = std::lround(static_cast<double>(differing.size() * static_cast<size_t>(period.steps)) /
                                  static_cast<double>(differing.size() + rest.size()));
  return std::to_string(std::max(1L, in_one)) + " of " + std::to_string(period.steps) +
         (in_one > 1 ? " steps take " : " steps takes ") + ms_text(ms) + than + over + std::to_string(count) +
         (count == 1 ? " period" : " periods");
}

std::string waiting_text(const TrainingProcessRecords& records) {
  const Steps steps = measured(records);
  const double ms = mean(steps, [](const StepRecord& step) { return *step.ms; });
  const double wait_ms = mean(steps, [](const StepRecord& step) { return step.wait_ms; });
  if (ms <= 0 || wait_ms < kWaiting * ms) return "";
  return "a step waits " + ms_text(wait_ms) + " of " + ms_text(ms) +
         " for its batches: more workers of the DataLoader (num_workers) load them ahead";
}

}  // namespace memtune::attach
