#include "core/sweep/proposals/best_plan_by_batch_predictor.h"

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/sweep/proposals/largest_batch.h"

namespace memtune::sweep {
namespace {

constexpr int kDoublings = 20;

}  // namespace

std::vector<int64_t> GlobalBatchOrAccumulationSteps::batches() const {
  if (global_batch > 0) return divisors(global_batch);
  std::vector<int64_t> batches;
  for (int i = 0; i <= kDoublings; ++i) batches.push_back(int64_t{1} << i);
  return batches;
}

void BestPlanByBatchPredictor::add(planner::BatchSizeAndRecordedCosts recorded, const plan::ProgramFacts& facts) {
  if (recorded_.empty()) facts_ = facts;
  recorded_.push_back(std::move(recorded));
}

bool BestPlanByBatchPredictor::can_extrapolate() const {
  return recorded_.size() == 2 &&
         planner::costs_at_batch(recorded_[0], recorded_[1], recorded_[0].batch, recorded_[0].costs.passes);
}

std::optional<plan::RecordedStepCosts> BestPlanByBatchPredictor::costs_at(int64_t batch) const {
  for (const planner::BatchSizeAndRecordedCosts& one : recorded_)
    if (one.batch == batch) return one.costs;
  if (recorded_.size() < 2) return {};
  const auto passes = static_cast<int>(size_.passes(batch));
  const auto predictor = planner::costs_at_batch(recorded_[0], recorded_[1], batch, passes);
  return predictor ? std::optional(predictor->likely) : std::nullopt;
}

const BestPlanByBatchPredictor::BatchPrediction* BestPlanByBatchPredictor::prediction(int64_t batch) {
  const auto [found, is_new] = planners_.try_emplace(batch);
  BatchPlanner& book = found->second;
  if (!is_new) return book.planner ? &book.prediction : nullptr;
  const auto costs = costs_at(batch);
  if (!costs) return nullptr;
  book.prediction.batch = batch;
  book.facts =
      std::make_unique<plan::ProgramFacts>(planner::facts_at_batch(facts_, recorded_.front(), {batch, *costs}));
  book.planner =
      std::make_unique<planner::Planner>(*book.facts, *costs, planner::tiers(limits_, disk_, /*states=*/false, *costs));
  const planner::StepPrediction none = book.planner->predict({});
  if (none.required_bytes <= limits_.budget_bytes) {
    planner::PredictedPlan step{{}, none, {}, none.step_ms};
    step.plan.strategy = "none";
    set_step(book, std::move(step));
  } else {
    set_step(book, book.planner->plan(limits_, "plan:" + format_bytes(limits_.budget_bytes)));
  }
  return &book.prediction;
}

BestPlanByBatchPredictor::BatchSearch BestPlanByBatchPredictor::search(std::span<const int64_t> batches) {
  BatchSearch found;
  for (size_t i = 0; i < batches.size() && !found.ended; ++i) {
    const BatchPrediction* now = prediction(batches[i]);
    if (!now) continue;
    found.ended = !now->step || std::ranges::any_of(found.predictions, [&](const BatchPrediction* other) {
      return other->batch * 2 <= now->batch && !gains(now->sample_ms, other->sample_ms);
    });
    found.predictions.push_back(now);
  }
  return found;
}

void BestPlanByBatchPredictor::set_step(BatchPlanner& book, std::optional<planner::PredictedPlan> step) const {
  if (step) book.prediction.sample_ms = size_.sample_ms(book.prediction.batch, step->predicted.step_ms);
  book.prediction.step = std::move(step);
}

planner::StepPrediction BestPlanByBatchPredictor::predict(int64_t batch, const plan::Plan& plan) const {
  return planners_.at(batch).planner->predict(plan);
}

int64_t BestPlanByBatchPredictor::least_bytes(int64_t batch) const {
  return planners_.at(batch).planner->least_memory(limits_, "").predicted.required_bytes;
}

// A plan that ran out of memory does not show by how much: the next budget is halfway to the least memory of any plan.
bool BestPlanByBatchPredictor::correct(int64_t batch, int64_t measured_bytes) {
  BatchPlanner& book = planners_.at(batch);
  const int64_t predicted = book.prediction.step->predicted.required_bytes;
  planner::PlanMemoryBudgets goal = limits_;
  goal.budget_bytes = measured_bytes > 0 ? limits_.budget_bytes - std::max<int64_t>(1, measured_bytes - predicted)
                                         : predicted - std::max<int64_t>(1, (predicted - least_bytes(batch)) / 2);
  auto again = book.planner->plan(goal, "plan:" + format_bytes(limits_.budget_bytes) + "-2");
  if (!again || again->plan.placements == book.prediction.step->plan.placements) return false;
  set_step(book, std::move(again));
  return true;
}

}  // namespace memtune::sweep
