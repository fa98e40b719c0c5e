#include "core/plan/planner/parameter_gather_simulator.h"

#include <algorithm>

#include "core/base/bounds.h"

namespace memtune::planner {

ParameterGatherSimulator::ParameterGatherSimulator(const plan::RecordedStepCosts& costs, double scale,
                                                   const StepState& before, SimulatedDeviceMemory& memory,
                                                   SimulatedComputeAndHostClock& clock)
    : costs_(costs),
      scale_(scale),
      frees_(schedule::parse_reshard(costs.sharding.reshard) != schedule::ReshardPolicy::never),
      memory_(memory),
      clock_(clock),
      block_of_(costs.sharding.units.size(), SimulatedDeviceMemory::kNone),
      done_ms_(costs.sharding.units.size()),
      schedule_(costs.sharding.units.size(), schedule::parse_reshard(costs.sharding.reshard), *this, before.learned) {
  for (size_t unit = 0; unit < before.resident.size(); ++unit)
    if (before.resident[unit]) block_of_[unit] = memory_.make(costs.sharding.units[unit].bytes);
}

void ParameterGatherSimulator::begin_forward() {
  schedule_.begin_step();
  schedule_.begin_forward();
}

void ParameterGatherSimulator::begin_backward() {
  in_backward_ = true;
  schedule_.begin_backward();
}

void ParameterGatherSimulator::read_by_node(const std::vector<int>& units) {
  read_by_node_ = units;
  schedule_.read_by_node(units);
}

void ParameterGatherSimulator::read_again(int run) {
  const double before_ms = waited_ms_;
  schedule_.read_again(costs_.runs[run].units);
  waited_in_reruns_ms_ += waited_ms_ - before_ms;
}

ParameterGatherSimulator::StepState ParameterGatherSimulator::next_step_state() const {
  StepState before{schedule_.learned(), {}};
  for (const int block : block_of_) before.resident.push_back(block != SimulatedDeviceMemory::kNone);
  return before;
}

int64_t ParameterGatherSimulator::needed_bytes() const {
  int64_t bytes = 0;
  for (size_t unit = 0; unit < block_of_.size(); ++unit) {
    if (block_of_[unit] == SimulatedDeviceMemory::kNone) continue;
    const bool needed = !in_backward_ || !frees_ || std::ranges::count(read_by_node_, static_cast<int>(unit)) > 0;
    bytes += needed ? costs_.sharding.units[unit].bytes : 0;
  }
  return bytes;
}

void ParameterGatherSimulator::gather(int unit) {
  const plan::RecordedStepCosts::Unit& known = costs_.sharding.units[unit];
  if (block_of_[unit] == SimulatedDeviceMemory::kNone) block_of_[unit] = memory_.make(known.bytes);
  gathered_bytes_ = bounded_sum(gathered_bytes_, known.bytes);
  if (in_backward_)
    done_ms_[unit] = link_busy_until_ms_ = std::max(link_busy_until_ms_, clock_.compute) + scale_ * known.gather_ms;
}

void ParameterGatherSimulator::wait(int unit) {
  const double late = in_backward_ ? std::max(0.0, done_ms_[unit] - clock_.compute) : 0;
  done_ms_[unit] = 0;
  clock_.run(late, late);
  waited_ms_ += late;
}

void ParameterGatherSimulator::free(int unit) {
  memory_.drop(std::exchange(block_of_[unit], SimulatedDeviceMemory::kNone));
}

}  // namespace memtune::planner
