#include "core/plan/planner/step_gathers.h"

#include <algorithm>

#include "core/base/bounds.h"

namespace memtune::planner {

StepGathers::StepGathers(const plan::StepCosts& costs, double scale, const Before& before, StepMemory& memory,
                         StepClock& clock)
    : costs_(costs),
      scale_(scale),
      frees_(schedule::parse_reshard(costs.sharding.reshard) != schedule::Reshard::never),
      memory_(memory),
      clock_(clock),
      block_of_(costs.sharding.units.size(), StepMemory::kNone),
      done_ms_(costs.sharding.units.size()),
      schedule_(costs.sharding.units.size(), schedule::parse_reshard(costs.sharding.reshard), *this, before.learned) {
  for (size_t unit = 0; unit < before.there.size(); ++unit)
    if (before.there[unit]) block_of_[unit] = memory_.make(costs.sharding.units[unit].bytes);
}

void StepGathers::begin_forward() {
  schedule_.begin_step();
  schedule_.begin_forward();
}

void StepGathers::begin_backward() {
  in_backward_ = true;
  schedule_.begin_backward();
}

void StepGathers::read_by_node(const std::vector<int>& units) {
  read_by_node_ = units;
  schedule_.read_by_node(units);
}

void StepGathers::read_again(int run) {
  const double before_ms = waited_ms_;
  schedule_.read_again(costs_.runs[run].units);
  waited_in_reruns_ms_ += waited_ms_ - before_ms;
}

StepGathers::Before StepGathers::before_next() const {
  Before before{schedule_.learned(), {}};
  for (const int block : block_of_) before.there.push_back(block != StepMemory::kNone);
  return before;
}

int64_t StepGathers::needed_bytes() const {
  int64_t bytes = 0;
  for (size_t unit = 0; unit < block_of_.size(); ++unit) {
    if (block_of_[unit] == StepMemory::kNone) continue;
    const bool needed = !in_backward_ || !frees_ || std::ranges::count(read_by_node_, static_cast<int>(unit)) > 0;
    bytes += needed ? costs_.sharding.units[unit].bytes : 0;
  }
  return bytes;
}

void StepGathers::gather(int unit) {
  const plan::StepCosts::Unit& known = costs_.sharding.units[unit];
  if (block_of_[unit] == StepMemory::kNone) block_of_[unit] = memory_.make(known.bytes);
  gathered_bytes_ = bounded_sum(gathered_bytes_, known.bytes);
  if (in_backward_) done_ms_[unit] = lane_ms_ = std::max(lane_ms_, clock_.compute) + scale_ * known.gather_ms;
}

void StepGathers::wait(int unit) {
  const double late = in_backward_ ? std::max(0.0, done_ms_[unit] - clock_.compute) : 0;
  done_ms_[unit] = 0;
  clock_.run(late, late);
  waited_ms_ += late;
}

void StepGathers::free(int unit) { memory_.drop(std::exchange(block_of_[unit], StepMemory::kNone)); }

}  // namespace memtune::planner
