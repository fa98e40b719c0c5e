#include "core/sweep/loop/inspected_model_shape_grid.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/record/measurement/trial_result_row.h"
#include "core/sweep/loop/inspection.h"

namespace memtune::sweep {
namespace {

std::vector<std::optional<int64_t>> axis(const std::vector<int64_t>& values) {
  if (values.empty()) return {std::nullopt};
  return {values.begin(), values.end()};
}

}  // namespace

bool InspectedModelShapeGrid::inspect_first() {
  return inspect(axis(settings_.batches).front(), axis(settings_.sequences).front());
}

bool InspectedModelShapeGrid::inspect_all() {
  for (const auto& batch : axis(settings_.batches))
    for (const auto& sequence : axis(settings_.sequences))
      if (!inspect(batch, sequence)) return false;
  return true;
}

std::optional<size_t> InspectedModelShapeGrid::find_or_inspect(int64_t batch, size_t like) {
  const std::optional<int64_t> sequence = points_.at(like).sequence;
  const auto known = std::ranges::find_if(
      points_, [&](const InspectedModelAtShape& point) { return point.batch == batch && point.sequence == sequence; });
  if (known != points_.end()) return static_cast<size_t>(known - points_.begin());
  if (!inspect(batch, sequence)) {
    points_.pop_back();
    return std::nullopt;
  }
  return points_.size() - 1;
}

plan::TrialRequest InspectedModelShapeGrid::request_at(const InspectedModelAtShape& point) const {
  plan::TrialRequest request = settings_.request;
  request.training.batch = point.batch.value_or(request.training.batch);
  request.training.sequence = point.sequence.value_or(request.training.sequence);
  if (settings_.global_batch > 0 && point.batch)
    request.training.accumulate = static_cast<int>(settings_.global_batch / *point.batch);
  return request;
}

// A model that cannot be inspected at a later point is no error: the trials there will report why they fail.
bool InspectedModelShapeGrid::inspect(const std::optional<int64_t>& batch, const std::optional<int64_t>& sequence) {
  InspectedModelAtShape& point = points_.emplace_back(InspectedModelAtShape{batch, sequence, {}});
  const plan::TrialRequest request = request_at(point);
  TrialAnswer answer = sweep::inspect(
      request, keys_.setting(request), directory_, settings_.other_runs, settings_.limit,
      [this](const TrialPhaseProgress& phase) { listener_.inspecting(phase); }, spare_);
  const auto* failure = std::get_if<ProcessFailure>(&answer);
  if (failure && failure->outcome == result::TrialOutcome::interrupted) return false;
  if (auto* facts = std::get_if<ModelInspectionResult>(&answer)) {
    point.facts = std::move(*facts);
    return true;
  }
  const auto* problem = std::get_if<ReceivedUsageError>(&answer);
  const std::string reason = problem   ? problem->message
                             : failure ? failure->reason
                                       : "memtune-trial gave another answer";
  if (points_.size() > 1) {
    point.facts = points_.front().facts;
    const auto text = [](const InspectedModelAtShape& at) { return result::axes_text(at.batch, at.sequence); };
    notes_.push_back("the model cannot be inspected with " + text(point) + " (" + reason +
                     "): plans are made as with " + text(points_.front()));
    return true;
  }
  if (problem) throw UsageError(reason);
  throw Error("cannot inspect the model: " + reason);
}

}  // namespace memtune::sweep
