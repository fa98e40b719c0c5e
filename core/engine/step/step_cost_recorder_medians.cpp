// Combines the costs of several steps into one.
#include <algorithm>

#include "core/base/median.h"
#include "core/engine/step/op_and_saved_tensor_cost_recorder.h"

namespace memtune::step {
namespace {

using plan::RecordedStepCosts;

// Median of one field over all steps.
template <class Get>
double median_of(const std::vector<const RecordedStepCosts*>& steps, Get get) {
  std::vector<double> samples;
  for (const RecordedStepCosts* step : steps) samples.push_back(get(*step));
  return median(std::move(samples));
}

template <class Get>
int64_t most_of(const std::vector<const RecordedStepCosts*>& steps, Get get) {
  int64_t most = 0;
  for (const RecordedStepCosts* step : steps) most = std::max<int64_t>(most, get(*step));
  return most;
}

// Whether the host waits for the device is known from the first step on, so the last one has it right.
void take_median_issue(const std::vector<const RecordedStepCosts*>& steps, RecordedStepCosts& costs) {
  if (!std::ranges::all_of(steps, &RecordedStepCosts::has_issue_times)) {
    costs.issue = {};
    return;
  }
  using Times = std::vector<RecordedStepCosts::IssueTime> RecordedStepCosts::IssueTimes::*;
  for (const Times times : {&RecordedStepCosts::IssueTimes::runs, &RecordedStepCosts::IssueTimes::moments})
    for (size_t i = 0; i < (costs.issue.*times).size(); ++i)
      (costs.issue.*times)[i].ms =
          median_of(steps, [&](const RecordedStepCosts& step) { return (step.issue.*times)[i].ms; });
  using Time = double RecordedStepCosts::IssueTimes::*;
  for (const Time time : {&RecordedStepCosts::IssueTimes::before_ms, &RecordedStepCosts::IssueTimes::after_ms,
                          &RecordedStepCosts::IssueTimes::engine_ms})
    costs.issue.*time = median_of(steps, [&](const RecordedStepCosts& step) { return step.issue.*time; });
}

// Sizes are not compared: they may depend on the data, e.g. on the number of tokens of an expert.
bool of_one_kind(const RecordedStepCosts::Value& a, const RecordedStepCosts::Value& b) {
  return a.run == b.run && a.output == b.output && a.cast_of == b.cast_of;
}

bool ran_alike(const RecordedStepCosts& a, const RecordedStepCosts& b) {
  return std::ranges::equal(a.values, b.values, of_one_kind) && a.saved == b.saved && a.runs.size() == b.runs.size() &&
         std::ranges::equal(a.runs, b.runs, {}, &RecordedStepCosts::Run::op, &RecordedStepCosts::Run::op) &&
         std::ranges::equal(a.runs, b.runs, {}, &RecordedStepCosts::Run::units, &RecordedStepCosts::Run::units) &&
         std::ranges::equal(a.sharding.reads, b.sharding.reads,
                            [](const auto& x, const auto& y) { return x.moment == y.moment && x.units == y.units; }) &&
         std::ranges::equal(a.moments, b.moments,
                            [](const auto& x, const auto& y) { return x.kind == y.kind && x.saved == y.saved; });
}

}  // namespace

std::optional<RecordedStepCosts> OpAndSavedTensorCostRecorder::costs() const {
  if (steps_.empty()) return {};
  RecordedStepCosts costs = steps_.back();
  std::vector<const RecordedStepCosts*> alike;
  for (const RecordedStepCosts& step : steps_) {
    if (!ran_alike(step, costs)) return {};
    alike.push_back(&step);
  }
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    const auto run = [i](const RecordedStepCosts& step) -> const RecordedStepCosts::Run& { return step.runs[i]; };
    costs.runs[i].ms = median_of(alike, [&](const RecordedStepCosts& step) { return run(step).ms; });
    costs.runs[i].host_ms = median_of(alike, [&](const RecordedStepCosts& step) { return run(step).host_ms; });
    costs.runs[i].before_bytes = most_of(alike, [&](const RecordedStepCosts& step) { return run(step).before_bytes; });
    costs.runs[i].own_bytes = most_of(alike, [&](const RecordedStepCosts& step) { return run(step).own_bytes; });
  }
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    const auto moment = [i](const RecordedStepCosts& step) -> const RecordedStepCosts::Moment& {
      return step.moments[i];
    };
    costs.moments[i].ms = median_of(alike, [&](const RecordedStepCosts& step) { return moment(step).ms; });
    costs.moments[i].host_ms = median_of(alike, [&](const RecordedStepCosts& step) { return moment(step).host_ms; });
    costs.moments[i].before_bytes =
        most_of(alike, [&](const RecordedStepCosts& step) { return moment(step).before_bytes; });
    costs.moments[i].peak_bytes =
        most_of(alike, [&](const RecordedStepCosts& step) { return moment(step).peak_bytes; });
  }
  take_median_issue(alike, costs);
  for (size_t i = 0; i < costs.sharding.reads.size(); ++i) {
    const auto read = [i](const RecordedStepCosts& step) -> const RecordedStepCosts::UnitRead& {
      return step.sharding.reads[i];
    };
    costs.sharding.reads[i].wait_ms =
        median_of(alike, [&](const RecordedStepCosts& step) { return read(step).wait_ms; });
    costs.sharding.reads[i].before_bytes =
        most_of(alike, [&](const RecordedStepCosts& step) { return read(step).before_bytes; });
    costs.sharding.reads[i].peak_bytes =
        most_of(alike, [&](const RecordedStepCosts& step) { return read(step).peak_bytes; });
  }
  costs.sharding.forward_wait_ms =
      median_of(alike, [](const RecordedStepCosts& step) { return step.sharding.forward_wait_ms; });
  for (size_t i = 0; i < costs.values.size(); ++i)
    costs.values[i].bytes = most_of(alike, [i](const RecordedStepCosts& step) { return step.values[i].bytes; });
  costs.before_ms = median_of(alike, [](const RecordedStepCosts& step) { return step.before_ms; });
  costs.after_ms = median_of(alike, [](const RecordedStepCosts& step) { return step.after_ms; });
  costs.rerun_ms = median_of(alike, [](const RecordedStepCosts& step) { return step.rerun_ms; });
  costs.start_bytes = most_of(alike, [](const RecordedStepCosts& step) { return step.start_bytes; });
  costs.before_peak_bytes = most_of(alike, [](const RecordedStepCosts& step) { return step.before_peak_bytes; });
  costs.after_peak_bytes = most_of(alike, [](const RecordedStepCosts& step) { return step.after_peak_bytes; });
  return costs;
}

}  // namespace memtune::step
