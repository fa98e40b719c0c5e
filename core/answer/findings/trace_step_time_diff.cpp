#include "core/answer/findings/trace_step_time_diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/base/layout.h"

namespace memtune::findings {
namespace {

using trace::Intervals;
using trace::TimeInterval;
using trace::TraceEvent;

constexpr double kWorthACause = 0.05;  // ms
using Times = std::array<double, 6>;   // ms a step, in the order of kDeviceParts

struct RegionTime {
  std::string name;
  double ms = 0;  // per step
  Times within{};
  TimeInterval first;  // in the aligned step
};

std::string signed_ms(double ms) { return (ms < 0 ? "-" : "+") + fixed(std::abs(ms), 1) + " ms"; }

constexpr int32_t kAllBlocks = INT32_MAX;

// Regions of two traces are compared if they have the same key. Regions of unknown kind need the same name.
struct RegionKey {
  trace::TraceRegionKey region;
  std::string name;
  auto operator<=>(const RegionKey&) const = default;
};

// One side of the comparison.
class Side {
 public:
  explicit Side(const trace::Trace& trace)
      : trace_(trace), steps_(trace::find_steps(trace)), breakdown_(trace::find_step_time_breakdown(trace, steps_)) {
    std::vector<TimeInterval> by_length = steps_;
    std::ranges::sort(by_length, {}, [](const TimeInterval& step) { return step.end - step.start; });
    if (!by_length.empty()) aligned_ = by_length[(by_length.size() - 1) / 2];
  }

  TimeInterval aligned() const { return aligned_; }
  double step_ms() const { return per_step(trace::total(trace::unite(steps_))); }

  Times device() const {
    Times times{};
    for (size_t i = 0; i < times.size(); ++i) times[i] = per_step(trace::total(*sets()[i]));
    return times;
  }

  std::map<RegionKey, RegionTime> regions() const {
    struct Stretches {
      std::string name;
      std::vector<TimeInterval> all;
    };
    std::map<RegionKey, Stretches> found;
    const auto add = [&](const trace::TraceRegionKey& region, const std::string& name, const TraceEvent& event) {
      const bool known = region.kind != trace::TraceRegionLevel::none;
      Stretches& stretches = found[{region, known ? "" : name}];
      stretches.name = name;
      stretches.all.push_back({event.start_ns, event.end_ns});
    };
    for (const TraceEvent& event : trace_.events) {
      if (event.kind != trace::EventKind::region || event.region.kind == trace::TraceRegionLevel::step) continue;
      if (!trace_.counts(event)) continue;
      add(event.region, trace_.names[event.name], event);
      if (event.region.kind == trace::TraceRegionLevel::block)
        add(trace::TraceRegionKey::of_block(kAllBlocks, event.region.pass),
            "all blocks " + to_string(event.region.pass), event);
    }
    std::map<RegionKey, RegionTime> regions;
    for (auto& [key, stretches] : found) {
      RegionTime& time = regions[key];
      time = measure(trace::intersect(trace::unite(std::move(stretches.all)), trace::unite(steps_)));
      time.name = stretches.name;
    }
    return regions;
  }

 private:
  std::array<const Intervals*, 6> sets() const {
    return {&breakdown_.compute,     &breakdown_.in,   &breakdown_.out,
            &breakdown_.collectives, &breakdown_.wait, &breakdown_.idle};
  }

  double per_step(int64_t ns) const {
    return static_cast<double>(ns) / 1e6 / static_cast<double>(std::max<size_t>(1, steps_.size()));
  }

  RegionTime measure(const Intervals& stretches) const {
    RegionTime time;
    time.ms = per_step(trace::total(stretches));
    for (size_t i = 0; i < time.within.size(); ++i) {
      int64_t ns = 0;
      for (const TimeInterval& stretch : stretches) ns += trace::time_within(stretch, *sets()[i]);
      time.within[i] = per_step(ns);
    }
    const Intervals in_step = trace::intersect(stretches, {aligned_});
    if (!in_step.empty()) time.first = in_step.front();
    return time;
  }

  const trace::Trace& trace_;
  std::vector<TimeInterval> steps_;
  trace::StepDeviceTimeBreakdown breakdown_;
  TimeInterval aligned_;
};

// The device activity that differs most, in the direction of the whole difference.
std::string cause(const RegionTime& a, const RegionTime& b) {
  const double sign = b.ms < a.ms ? -1 : 1;
  size_t most = 0;
  Times deltas{};
  for (size_t i = 0; i < deltas.size(); ++i) {
    deltas[i] = b.within[i] - a.within[i];
    if (sign * deltas[i] > sign * deltas[most]) most = i;
  }
  if (sign * deltas[most] < kWorthACause) return "";
  return kDeviceParts[most] + " " + signed_ms(deltas[most]);
}

}  // namespace

TraceStepTimeDiff diff(const trace::Trace& a, const trace::Trace& b) {
  const Side side_a(a), side_b(b);
  TraceStepTimeDiff diff{side_a.aligned(), side_b.aligned(), side_a.step_ms(), side_b.step_ms(), {}};
  const Times device_a = side_a.device(), device_b = side_b.device();
  for (size_t i = 0; i < device_a.size(); ++i)
    diff.parts.push_back({kDeviceParts[i], false, device_a[i], device_b[i], "", {}, {}});
  std::map<RegionKey, RegionTime> regions_a = side_a.regions(), regions_b = side_b.regions();
  for (const auto& [key, time] : regions_b) regions_a.try_emplace(key);
  for (const auto& [key, time] : regions_a) {
    const RegionTime& other = regions_b[key];
    const std::string& name = time.name.empty() ? other.name : time.name;
    diff.parts.push_back({name, true, time.ms, other.ms, cause(time, other), time.first, other.first});
  }
  const auto start = [](const StepPartDiff& part) { return std::max(part.in_a.start, part.in_b.start); };
  std::stable_sort(diff.parts.begin(), diff.parts.end(), [&](const StepPartDiff& left, const StepPartDiff& right) {
    const double by = std::abs(left.delta_ms()) - std::abs(right.delta_ms());
    return by != 0 ? by > 0 : start(left) < start(right);
  });
  return diff;
}

std::string sentence(const StepPartDiff& part) {
  return part.name + " " + signed_ms(part.delta_ms()) + (part.cause.empty() ? "" : ": " + part.cause);
}

}  // namespace memtune::findings
