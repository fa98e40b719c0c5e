#include "core/sweep/predict/shape_only_step_fit_and_time_predictor.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/plan/planner/estimated_costs.h"
#include "core/sweep/predict/multiplication_dtype.h"

namespace memtune::sweep {
namespace {

// Context and libraries as on an H200 with PyTorch 2.11: 742 to 762 MiB. Other cards and releases differ.
constexpr int64_t kDeviceOverheadBytes = int64_t{750} << 20;
// Of a step's time, both ways: of measured steps on an H200, and on other cards, which were never measured.
constexpr double kMeasuredSpread = 0.20, kOtherSpread = 0.40;
constexpr int64_t kEndlessBytes = int64_t{1} << 44;  // no card has so much
constexpr const char* kMeasuredCard = "NVIDIA H200";

double spread(const plan::MachineProfile& card) {
  return std::ranges::count(card.devices, kMeasuredCard) > 0 ? kMeasuredSpread : kOtherSpread;
}

plan::RecordedStepCosts costs_on(const ShapeOnlyStepFactsAndCosts& recorded, const plan::MachineProfile& card,
                                 const plan::TrainingSettings& training) {
  plan::RecordedStepCosts costs = planner::estimated_costs(
      recorded.program, recorded.costs, card, multiplication_dtype(recorded.program, training), training.optimizer);
  costs.device_overhead_bytes = kDeviceOverheadBytes;
  return costs;
}

}  // namespace

std::vector<std::string> basis_notes() {
  return {"bytes are simulated from shapes; context and libraries count as " + format_bytes(kDeviceOverheadBytes) +
              ", as measured on an H200",
          "times are ranges: rates of the card's data sheet, and a host like that of the H200"};
}

ShapeOnlyStepFitAndTimePredictor::ShapeOnlyStepFitAndTimePredictor(const ShapeOnlyStepFactsAndCosts& recorded,
                                                                   const plan::MachineProfile& card,
                                                                   const plan::TrainingSettings& training)
    : card_(card),
      limits_{card.memory_bytes, training.host_budget_bytes, 0},
      planner_(recorded.program, costs_on(recorded, card, training),
               planner::tiers(limits_, /*disk=*/false, /*states=*/true, recorded.costs)) {}

StrategyGpuMemoryFit ShapeOnlyStepFitAndTimePredictor::predict(
    const plan::Plan& plan, const std::optional<ShapeOnlyStepPeakBytes>& peaks) const {
  planner::StepPrediction step = planner_.predict_on_device(plan, card_.memory_bytes);
  bool fits = step.short_bytes == 0 && step.required_bytes <= card_.memory_bytes;
  if (!fits) step = planner_.predict_on_device(plan, kEndlessBytes);
  if (peaks) {
    const int64_t bytes = peaks->reserved + kDeviceOverheadBytes, least_bytes = peaks->allocated + kDeviceOverheadBytes;
    // If it is more than the card has, the allocator may still release free segments, as in the simulation.
    if (bytes <= card_.memory_bytes || !fits || least_bytes > card_.memory_bytes) {
      fits = bytes <= card_.memory_bytes;
      step.peak_bytes = peaks->allocated;
      step.required_bytes = bytes;
    }
  }
  const bool fits_host = limits_.host_budget_bytes == 0 || step.host_peak_bytes <= limits_.host_budget_bytes;
  return fit_of(plan.strategy, step, fits && fits_host);
}

StrategyGpuMemoryFit ShapeOnlyStepFitAndTimePredictor::fit_of(const std::string& strategy,
                                                              const planner::StepPrediction& step, bool fits) const {
  return {strategy,
          step.peak_bytes,
          step.required_bytes,
          step.step_ms * (1 - spread(card_)),
          step.step_ms * (1 + spread(card_)),
          fits};
}

StrategyGpuMemoryFit ShapeOnlyStepFitAndTimePredictor::fit_of(const planner::PredictedPlan& plan) const {
  return fit_of(plan.plan.strategy, plan.predicted, true);
}

std::optional<planner::PredictedPlan> ShapeOnlyStepFitAndTimePredictor::best_plan(const std::string& name) const {
  return planner_.plan(limits_, name, /*safe=*/true);
}

int64_t ShapeOnlyStepFitAndTimePredictor::least_bytes() const {
  return planner_.least_memory(limits_, "least").predicted.required_bytes;
}

}  // namespace memtune::sweep
