#include "core/plan/planner/model_state_offload_simulator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/bounds.h"

namespace memtune::planner {

using plan::RecordedStepCosts;
using schedule::ModelStateKind;

namespace {

plan::UnitStatePlacement place_of(const RecordedStepCosts::StateUnit& unit, const plan::Plan& plan) {
  const auto place =
      std::ranges::find(plan.states, unit.block < 0 ? plan::kOutsideUnits : unit.name, &plan::UnitStatePlacement::unit);
  return place == plan.states.end() ? plan::UnitStatePlacement() : *place;
}

}  // namespace

int64_t offloaded_state_bytes(const RecordedStepCosts& costs, const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const RecordedStepCosts::StateUnit& unit : costs.states.units) {
    const plan::UnitStatePlacement place = place_of(unit, plan);
    if (place.parameters == plan::TensorPlacement::host)
      bytes = bounded_sum(bytes, bounded_sum(unit.trained_bytes, unit.frozen_bytes));
    if (place.moments == plan::TensorPlacement::host) bytes = bounded_sum(bytes, unit.moment_bytes);
  }
  return bytes;
}

ModelStateOffloadSimulator::ModelStateOffloadSimulator(const RecordedStepCosts& costs, const plan::Plan& plan,
                                                       double scale, const StepState& before,
                                                       SimulatedDeviceMemory& memory,
                                                       SimulatedComputeAndHostClock& clock,
                                                       DeviceHostCopySimulator& copies)
    : costs_(costs),
      scale_(scale),
      memory_(memory),
      clock_(clock),
      copies_(copies),
      lasting_bytes_(offloaded_state_bytes(costs, plan)) {
  if (!plan.offloads_states()) return;
  for (size_t i = 0; i < costs.states.units.size(); ++i) {
    const RecordedStepCosts::StateUnit& unit = costs.states.units[i];
    const plan::UnitStatePlacement placed = place_of(unit, plan);
    unit_of_block_.try_emplace(unit.block, static_cast<int>(i));
    if (unit.trained_bytes > 0) add_group(static_cast<int>(i), unit.trained_bytes, unit.moment_bytes, true, placed);
    if (unit.frozen_bytes > 0) add_group(static_cast<int>(i), unit.frozen_bytes, 0, false, placed);
    if (unit.trained_bytes + unit.frozen_bytes == 0) add_group(static_cast<int>(i), 0, 0, false, {});
  }
  std::vector<schedule::ModelStateOffloadScheduler::Group> known;
  for (const Group& group : groups_) known.push_back({group.unit, group.trained_bytes > 0 ? size_t{1} : size_t{0}});
  schedule::ModelStateCopyAndUpdateBackend& rows = *this;
  schedule_.emplace(known, rows, before.learned);
  schedule_->begin_updating(1, costs.states.clips);
  for (size_t i = 0; i < before.pending.size(); ++i) take_over(static_cast<int>(i), before);
}

// The stores that ended the last step have ended when this one needs to know.
void ModelStateOffloadSimulator::take_over(int group, const StepState& before) {
  if (before.pending[group]) schedule_->set_pending(group);
  groups_[group].has_gradients = before.pending[group];
  for (const ModelStateKind kind : schedule::kStateRows) {
    if (!before.storing[static_cast<size_t>(kind)][group]) continue;
    Row& row = this->row(group, kind);
    row.block = memory_.make(row.bytes);
    row.stored_ms = std::numeric_limits<double>::min();
    row.free_later = true;
  }
}

void ModelStateOffloadSimulator::add_group(int unit, int64_t bytes, int64_t moment_bytes, bool trained,
                                           const plan::UnitStatePlacement& place) {
  const bool parameters = place.parameters == plan::TensorPlacement::host,
             moments = trained && place.moments == plan::TensorPlacement::host;
  Group& group = groups_.emplace_back();
  group.unit = unit;
  if (trained) group.trained_bytes = bytes;
  group.rows = {Row{bytes, parameters}, Row{bytes, trained && costs_.states.clips && (parameters || moments)},
                Row{moment_bytes, moments}};
  trained_bytes_ = bounded_sum(trained_bytes_, group.trained_bytes);
  for (const Row& row : group.rows) bytes_.host = bounded_sum(bytes_.host, row.offloaded ? row.bytes : 0);
}

// --- a step ----------------------------------------------------------------------------------------------------------

schedule::ParameterGatherScheduler::Units ModelStateOffloadSimulator::unit_of(int block) const {
  const auto found = unit_of_block_.find(block);
  return found == unit_of_block_.end() ? schedule::ParameterGatherScheduler::Units()
                                       : schedule::ParameterGatherScheduler::Units{found->second};
}

void ModelStateOffloadSimulator::begin_forward() {
  if (!active()) return;
  schedule_->begin_step();
  schedule_->begin_forward();
}

void ModelStateOffloadSimulator::read(int block) {
  if (active()) schedule_->units().read(unit_of(block));
}

void ModelStateOffloadSimulator::begin_backward() {
  if (active()) schedule_->begin_backward();
}

void ModelStateOffloadSimulator::read_in_backward(int block, size_t moment) {
  if (!active()) return;
  const schedule::ParameterGatherScheduler::Units units = unit_of(block);
  if (units.empty() || units.front() == unit_) return;
  make_gradients(unit_, moment);
  unit_ = units.front();
  schedule_->units().read_by_node(units);
}

void ModelStateOffloadSimulator::end_backward() {
  if (!active()) return;
  const size_t last = costs_.moments.size();
  make_gradients(unit_, last);
  for (Group& group : groups_) make_gradients(group.unit, last);
  schedule_->end_backward();
}

// Gradients recorded up to this moment are of units that are updated, or whose gradients are in host memory.
void ModelStateOffloadSimulator::make_gradients(int unit, size_t moment) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.unit != unit || group.trained_bytes == 0 || std::exchange(group.made, true)) continue;
    schedule_->gradient_made(static_cast<int>(i));
    if (!costs_.states.updates_in_backward && moment < costs_.gradient_bytes.size())
      freed_gradient_bytes_ = costs_.gradient_bytes[moment];
  }
}

ModelStateOffloadSimulator::StepState ModelStateOffloadSimulator::next_step_state() const {
  StepState next;
  if (!schedule_) return next;
  next.learned = schedule_->learned();
  for (size_t i = 0; i < groups_.size(); ++i) {
    next.pending.push_back(schedule_->pending(static_cast<int>(i)));
    for (size_t kind = 0; kind < next.storing.size(); ++kind)
      next.storing[kind].push_back(groups_[i].rows[kind].stored_ms > 0);
  }
  return next;
}

// --- what the schedule decides ---------------------------------------------------------------------------------------

bool ModelStateOffloadSimulator::offloads(int group) const {
  return std::ranges::any_of(groups_[group].rows, &Row::offloaded);
}

void ModelStateOffloadSimulator::load(int group, ModelStateKind kind) {
  Row& row = this->row(group, kind);
  if (!row.offloaded) return;
  row.free_later = false;
  if (row.block != SimulatedDeviceMemory::kNone) return;
  row.block = memory_.make(row.bytes);
  row.loaded_ms = copies_.copy_states_in(row.bytes);
  bytes_.in = bounded_sum(bytes_.in, row.bytes);
}

void ModelStateOffloadSimulator::wait(int group, ModelStateKind kind) {
  clock_.wait_until(std::exchange(row(group, kind).loaded_ms, 0));
}

void ModelStateOffloadSimulator::store(int group, ModelStateKind kind) {
  Row& row = this->row(group, kind);
  if (!row.offloaded) return;
  row.stored_ms = copies_.copy_states_out(row.bytes);
  bytes_.out = bounded_sum(bytes_.out, row.bytes);
}

void ModelStateOffloadSimulator::free(int group, ModelStateKind kind) {
  Row& row = this->row(group, kind);
  wait(group, kind);
  row.free_later = row.stored_ms > 0;
  if (!row.free_later) memory_.drop(std::exchange(row.block, SimulatedDeviceMemory::kNone));
}

void ModelStateOffloadSimulator::settle(int group) {
  for (const ModelStateKind kind : schedule::kStateRows) {
    Row& row = this->row(group, kind);
    if (row.stored_ms == 0) continue;
    clock_.wait_until(std::exchange(row.stored_ms, 0));
    if (std::exchange(row.free_later, false)) free(group, kind);
  }
}

void ModelStateOffloadSimulator::take_gradients(int group) {
  Row& row = this->row(group, ModelStateKind::gradients);
  groups_[group].has_gradients = true;
  if (row.offloaded && row.block == SimulatedDeviceMemory::kNone) row.block = memory_.make(row.bytes);
}

void ModelStateOffloadSimulator::update(int group) {
  groups_[group].has_gradients = false;
  if (costs_.states.updates_in_backward || trained_bytes_ == 0) return;  // its time is in backward's
  const double share = static_cast<double>(groups_[group].trained_bytes) / static_cast<double>(trained_bytes_);
  const double ms = share * costs_.after_ms * scale_;
  updated_share_ += share;
  clock_.run(ms, ms);
}

}  // namespace memtune::planner
