#include "core/sweep/predict/other_batch_cost_prediction.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/plan/planner/fixed_costs.h"
#include "core/sweep/proposals/recorded_costs.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using planner::BatchSizeAndRecordedCosts;

// Micro-batch of the trial: from its axis, otherwise from the measured rate.
int64_t batch_of(const SweepTrialEntry& trial, const result::TrialMeasurement& measured,
                 const GlobalBatchOrAccumulationSteps& size) {
  if (trial.batch) return *trial.batch;
  const double samples = measured.samples_per_s * measured.step_ms.median / 1000;
  return std::lround(samples / size.accumulate);
}

// The second batch to extrapolate with: the furthest from `first` whose step ran the same ops. If there is no such
// batch, the fixed costs of `first` as a batch of 0 samples.
BatchSizeAndRecordedCosts second_of(std::vector<BatchSizeAndRecordedCosts> others,
                                    const BatchSizeAndRecordedCosts& first, const plan::ProgramFacts& program) {
  const auto furthest = [&](const BatchSizeAndRecordedCosts& a, const BatchSizeAndRecordedCosts& b) {
    return std::abs(a.batch - first.batch) > std::abs(b.batch - first.batch);
  };
  std::ranges::stable_sort(others, furthest);
  for (BatchSizeAndRecordedCosts& other : others)
    if (planner::costs_at_batch(first, other, first.batch, first.costs.passes)) return std::move(other);
  return {0, planner::fixed_costs(program, first.costs)};
}

}  // namespace

// --- recorded batches ------------------------------------------------------------------------------------------------

RecordedCostsByBatchSize::RecordedCostsByBatchSize(const RunDirectory& directory,
                                                   const SweepJsonSettingsFactsAndTrials& record,
                                                   const SweepTrialEntry& source, plan::RecordedStepCosts costs)
    : program(record.facts.program), size{record.global_batch, record.request.training.accumulate} {
  if (record.request.training.ranks > 1)
    throw UsageError("--batch: other batches cannot be predicted from a step of several ranks");
  const auto measured = directory.read_measurement(source.folder);
  const int64_t first = measured ? batch_of(source, *measured, size) : 0;
  if (first < 1)
    throw UsageError("--batch: the samples of this run's inputs are not known, so other batches cannot be predicted");
  sample_tokens = measured->samples_per_s > 0 ? measured->tokens_per_s / measured->samples_per_s : 0;
  batches.push_back({first, std::move(costs)});
  for (const SweepTrialEntry& trial : record.trials) {
    if (!trial.batch || trial.sequence != source.sequence) continue;
    if (std::ranges::count(batches, *trial.batch, &BatchSizeAndRecordedCosts::batch) > 0) continue;
    if (auto other = read_costs(directory / trial.folder, program))
      batches.push_back({*trial.batch, std::move(*other)});
  }
}

// --- another batch ---------------------------------------------------------------------------------------------------

OtherBatchCostPrediction::OtherBatchCostPrediction(RecordedCostsByBatchSize recorded, int64_t batch,
                                                   const std::optional<planner::PlanMemoryBudgets>& limits)
    : recorded_(std::move(recorded)), batch_(batch) {
  std::vector<BatchSizeAndRecordedCosts> all = std::move(recorded_.batches);
  recorded_.batches = {all.front(), second_of({all.begin() + 1, all.end()}, all.front(), recorded_.program)};
  const int64_t step = recorded_.size.global_batch;
  if (batch > 0) {
    if (!is_worked_out(batch_))
      throw UsageError(
          "--batch: a step of the run has one micro-batch, without gradients in memory during forward; steps of more, "
          "as micro-batches of " +
          std::to_string(batch) + " samples need, cannot be predicted from it");
    if (step > 0 && step % batch_ != 0)
      throw UsageError("--batch: the run's step of " + std::to_string(step) + " samples is no multiple of " +
                       std::to_string(batch));
  } else if (!limits) {
    throw UsageError("--batch auto finds the fastest batch within a budget: give one --budget");
  } else {
    look_at_all(*limits);
  }
  const auto& [first, second] = std::pair(recorded_.batches[0], recorded_.batches[1]);
  const auto passes = static_cast<int>(recorded_.size.passes(batch_));
  costs_ = *planner::costs_at_batch(first, second, batch_, passes);
  const auto same = std::ranges::find(all, batch_, &BatchSizeAndRecordedCosts::batch);
  if (same != all.end()) costs_ = {same->costs, same->costs, same->costs};
  program_ = planner::facts_at_batch(recorded_.program, first, {batch_, costs_.likely});
}

void OtherBatchCostPrediction::look_at_all(const planner::PlanMemoryBudgets& limits) {
  BestPlanByBatchPredictor predictor(recorded_.size, limits, /*disk=*/true);
  for (const BatchSizeAndRecordedCosts& one : recorded_.batches) predictor.add(one, recorded_.program);
  std::vector<int64_t> batches = recorded_.size.batches();
  std::erase_if(batches, [&](int64_t batch) { return !is_worked_out(batch); });
  for (const BatchPrediction* each : predictor.search(batches).predictions) looked_.push_back(*each);
  const auto slower = [](const BatchPrediction& one) { return one.step ? one.sample_ms : HUGE_VAL; };
  const auto best = std::ranges::min_element(looked_, {}, slower);
  if (best == looked_.end() || !best->step)
    throw UsageError("--batch auto: no batch has a plan that fits " + format_bytes(limits.budget_bytes) +
                     "; the smallest takes " +
                     format_bytes(looked_.empty() ? 0 : predictor.least_bytes(looked_[0].batch)));
  batch_ = best->batch;
}

// With gradient accumulation the forward of later micro-batches has gradients in memory. Only a recorded step of
// several micro-batches predicts that.
bool OtherBatchCostPrediction::is_worked_out(int64_t batch) const {
  return recorded_.size.passes(batch) <= 1 || recorded_.batches[0].costs.passes > 1;
}

bool OtherBatchCostPrediction::was_recorded() const {
  return std::ranges::count(recorded_.batches, batch_, &BatchSizeAndRecordedCosts::batch) > 0;
}

// --- texts -----------------------------------------------------------------------------------------------------------

std::string OtherBatchCostPrediction::recorded_text() const {
  const auto& batches = recorded_.batches;
  std::string text = "batch " + std::to_string(batches[0].batch);
  return is_of_one() ? text : text + " and batch " + std::to_string(batches[1].batch);
}

std::string OtherBatchCostPrediction::title() const {
  return "recorded with " + recorded_text() + ", planned for batch " + std::to_string(batch_);
}

std::string OtherBatchCostPrediction::rate_text(const BatchPrediction& one) const {
  const std::string batch = "batch " + std::to_string(one.batch) + " ";
  if (!one.step) return batch + "has no plan that fits";
  const double samples_per_s = 1000 / one.sample_ms;
  const std::string rate = recorded_.sample_tokens > 0 ? fixed(samples_per_s * recorded_.sample_tokens, 0) + " tokens/s"
                                                       : fixed(samples_per_s, 1) + " samples/s";
  return batch + rate + " (" + (one.step->plan.strategy == "none" ? "none" : "a plan") + ")";
}

std::vector<std::string> OtherBatchCostPrediction::notes() const {
  std::vector<std::string> notes;
  std::vector<std::string> rates;
  for (const BatchPrediction& one : looked_) rates.push_back(rate_text(one));
  if (!looked_.empty())
    notes.push_back("batch auto: " + join(rates, ", ") +
                    (looked_.back().step ? "; larger ones are not predicted: the last is no faster than half of it"
                                         : "; nor have larger ones"));
  if (was_recorded()) return notes;
  if (is_of_one())
    notes.push_back(
        "predicted from batch " + std::to_string(recorded_.batches[0].batch) +
        " only: parameters, their gradients, the optimizer and tensors that depend on no input stay the same, " +
        "all else scales with the batch. From, to: the step time of the recorded batch, and that time scaled with " +
        "the batch. A run of two batches (memtune sweep --strategy none --batch with both) predicts better.");
  else
    notes.push_back("predicted from " + recorded_text() +
                    ": each number is on the line through both. From, to: outside of both, an op takes between that " +
                    "line and its time at the nearer batch scaled with the batch.");
  return notes;
}

json OtherBatchCostPrediction::to_json() const {
  json recorded = json::array(), looked = json::array();
  for (const BatchSizeAndRecordedCosts& one : recorded_.batches)
    if (one.batch > 0) recorded.push_back(one.batch);
  for (const BatchPrediction& one : looked_) {
    json entry = {{"batch", one.batch}, {"fits", one.step.has_value()}};
    if (one.step)
      entry.update({{"plan", one.step->plan.strategy},
                    {"step_ms", one.step->predicted.step_ms},
                    {"samples_per_s", 1000 / one.sample_ms},
                    {"tokens_per_s", recorded_.sample_tokens * 1000 / one.sample_ms},
                    {"peak_bytes", one.step->predicted.peak_bytes}});
    looked.push_back(entry);
  }
  return {{"recorded", recorded}, {"planned_for", batch_}, {"looked_at", looked}};
}

}  // namespace memtune::sweep
