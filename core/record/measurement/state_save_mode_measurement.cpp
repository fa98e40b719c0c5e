#include "core/record/measurement/state_save_mode_measurement.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/json.h"
#include "core/base/median.h"

namespace memtune::result {
namespace {

using nlohmann::json;

constexpr size_t kEnoughSteps = 3;  // a median of fewer steps is unreliable

template <typename MetricDefinition>
double median_of(const std::vector<StateSaveWithConcurrentStepTimes>& saves, MetricDefinition metric) {
  std::vector<double> values;
  for (const StateSaveWithConcurrentStepTimes& save : saves) values.push_back(std::invoke(metric, save));
  return median(std::move(values));
}

// Steps that had a save running during their whole time.
std::vector<double> steps_with_save(const std::vector<StateSaveWithConcurrentStepTimes>& saves) {
  std::vector<double> steps;
  for (const StateSaveWithConcurrentStepTimes& save : saves)
    if (!save.steps_ms.empty()) steps.insert(steps.end(), save.steps_ms.begin(), save.steps_ms.end() - 1);
  return steps;
}

double slowed_ms(const StateSaveWithConcurrentStepTimes& save, double step_ms) {
  const double all = std::accumulate(save.steps_ms.begin(), save.steps_ms.end(), 0.0);
  return std::max(0.0, all - save.within_steps_ms - static_cast<double>(save.steps_ms.size()) * step_ms);
}

std::string count_of_steps(size_t steps) { return steps == 1 ? "1 step" : std::to_string(steps) + " steps"; }

std::string why_no_slowdown(size_t alone, size_t beside) {
  if (alone < kEnoughSteps) return "only " + count_of_steps(alone) + " without a save";
  if (beside == 0) return "a save ended before a step did";
  if (beside < kEnoughSteps) return "only " + count_of_steps(beside) + " during a save";
  return "";
}

}  // namespace

void summarize(const std::vector<StateSaveWithConcurrentStepTimes>& saves, const std::vector<double>& steps_alone_ms,
               StateSaveModeMeasurement& to) {
  const StateSaveWithConcurrentStepTimes& first = saves.front();
  const std::vector<StateSaveWithConcurrentStepTimes> later(saves.begin() + (saves.size() > 1 ? 1 : 0), saves.end());
  to.saves = static_cast<int64_t>(saves.size());
  to.bytes = saves.back().bytes;
  to.first_blocked_ms = first.blocked_ms;
  to.first_durable_ms = first.durable_ms;
  to.blocked_ms = median_of(later, &StateSaveWithConcurrentStepTimes::blocked_ms);
  to.most_blocked_ms = std::ranges::max_element(later, {}, &StateSaveWithConcurrentStepTimes::blocked_ms)->blocked_ms;
  to.durable_ms = median_of(later, &StateSaveWithConcurrentStepTimes::durable_ms);
  to.total_ms = median_of(later, &StateSaveWithConcurrentStepTimes::total_ms);
  to.step_ms = median(steps_alone_ms);
  to.slowed_ms =
      median_of(later, [&](const StateSaveWithConcurrentStepTimes& save) { return slowed_ms(save, to.step_ms); });
  const std::vector<double> beside =
      steps_with_save(saves.size() > 1 ? later : std::vector<StateSaveWithConcurrentStepTimes>());
  to.steps_with_save = static_cast<int64_t>(beside.size());
  to.no_slowdown = why_no_slowdown(steps_alone_ms.size(), beside.size());
  if (to.no_slowdown.empty() && to.step_ms > 0) to.slowdown = median(beside) / to.step_ms;
}

void to_json(json& out, const StateSaveModeMeasurement& m) {
  out = {{"mode", m.mode},
         {"outcome", to_string(m.outcome)},
         {"reason", m.reason},
         {"saves", m.saves},
         {"bytes", m.bytes},
         {"first_blocked_ms", m.first_blocked_ms},
         {"first_durable_ms", m.first_durable_ms},
         {"blocked_ms", m.blocked_ms},
         {"most_blocked_ms", m.most_blocked_ms},
         {"durable_ms", m.durable_ms},
         {"total_ms", m.total_ms},
         {"step_ms", m.step_ms},
         {"slowdown", m.slowdown ? json(*m.slowdown) : json(nullptr)},
         {"no_slowdown", m.no_slowdown},
         {"slowed_ms", m.slowed_ms},
         {"steps_beside", m.steps_with_save},
         {"load_ms", m.load_ms},
         {"host_bytes", m.host_bytes}};
}

void from_json(const json& in, StateSaveModeMeasurement& m) {
  m = {};
  m.mode = in.at("mode");
  m.outcome = parse_outcome(in.at("outcome"));
  m.reason = in.at("reason");
  m.saves = whole_at(in, "saves", 0);
  m.bytes = whole_at(in, "bytes", 0, kMaxBytes);
  m.first_blocked_ms = number_at(in, "first_blocked_ms", 0, kMaxFigure);
  m.first_durable_ms = number_at(in, "first_durable_ms", 0, kMaxFigure);
  m.blocked_ms = number_at(in, "blocked_ms", 0, kMaxFigure);
  m.most_blocked_ms = number_at(in, "most_blocked_ms", 0, kMaxFigure);
  m.durable_ms = number_at(in, "durable_ms", 0, kMaxFigure);
  m.total_ms = number_at(in, "total_ms", 0, kMaxFigure);
  m.step_ms = number_at(in, "step_ms", 0, kMaxFigure);
  if (!in.at("slowdown").is_null()) m.slowdown = number_at(in, "slowdown", 0, kMaxFigure);
  m.no_slowdown = in.at("no_slowdown");
  m.slowed_ms = number_at(in, "slowed_ms", 0, kMaxFigure);
  m.steps_with_save = whole_at(in, "steps_beside", 0);
  m.load_ms = number_at(in, "load_ms", 0, kMaxFigure);
  m.host_bytes = whole_at(in, "host_bytes", 0, kMaxBytes);
}

}  // namespace memtune::result
