// Recomputes dropped values: the recursion of core/engine/checkpoint.
#include <algorithm>

#include "core/base/bounds.h"
#include "core/plan/planner/saved_activation_simulator.h"
#include "core/record/trace/private_save.h"

namespace memtune::planner {

std::span<const int> SavedActivationSimulator::inputs_of(int instance) const {
  if (!is_cast(instance)) return tables_.reads[instance];
  const int& source = tables_.values[cast_value(instance)].cast_of;
  return source >= 0 ? std::span(&source, 1) : std::span<const int>();
}

std::span<const int> SavedActivationSimulator::outputs_of(int instance) const {
  return is_cast(instance) ? std::span(&tables_.values[cast_value(instance)].number, 1) : tables_.makes[instance];
}

int SavedActivationSimulator::bytes(int v) {
  Value& value = values_[v];
  switch (state(value)) {
    case State::held: break;
    case State::offloaded: value.held = copies_.reload(value.offloaded); break;
    case State::dropped: return alive(v) ? memory_.take(tables_.values[v].storage) : make(value.maker, v);
    case State::unretained: return memory_.take(tables_.values[v].storage);
  }
  return memory_.take(value.held);
}

int SavedActivationSimulator::make(int instance, int v) {
  Value& value = values_[v];
  if (value.passed == kNone) run(instance, v);
  return memory_.take(value.passed != kNone ? value.passed : value.held);
}

int SavedActivationSimulator::saved_by(int number) {
  Saved& saved = saved_[number];
  if (saved.captured == kNone) run(costs_.saved[number].run, kNone);
  return memory_.take(saved.captured);
}

// All recorded ops of the block, in order (ThirdPartyEngineEmulationFlags::whole_blocks).
void SavedActivationSimulator::rerun_block(int block) {
  const auto instances = of_block_.extract(block);
  if (instances.empty()) return;
  for (const int instance : instances.mapped()) {
    if (!instances_[instance].done) rerun(instance, kNone);
    release_instance(instance);
  }
}

// In nested checkpoints, values that a block made on the way are freed when the wanted value exists.
void SavedActivationSimulator::run(int instance, int wanted) {
  const int block = block_of(instance);
  if (whole_blocks()) {
    rerun_block(block);
    if (instances_[instance].done) return;
  }
  const auto is_block = [&](const auto& passed) { return passed.first == block; };
  const bool enters = passes(instance) && std::ranges::none_of(unretained_, is_block);
  if (enters) unretained_.push_back({block, {}});
  rerun(instance, wanted);
  if (!enters) return;
  const auto left = std::ranges::find_if(unretained_, is_block);
  for (const int value : left->second) memory_.drop(std::exchange(values_[value].passed, kNone));
  unretained_.erase(left);
}

void SavedActivationSimulator::rerun(int instance, int wanted) {
  const std::vector<Input> inputs = take_inputs(instance);
  run_op(instance);
  if (!is_cast(instance) && instances_[instance].captures > 0 && !passes(instance)) capture(instance);
  hold_outputs(instance, inputs, wanted);
  if (!is_cast(instance)) memory_.pass(tables_.runs[instance].scratch_bytes);
  for (const Input& input : inputs) memory_.drop(input.block);
  if (!passes(instance) && !std::exchange(instances_[instance].done, true)) end_inputs(instance);
}

std::vector<SavedActivationSimulator::Input> SavedActivationSimulator::take_inputs(int instance) {
  std::vector<Input> inputs;
  for (const int value : inputs_of(instance)) {
    Input input{value, bytes(value), !is_cast(instance) && std::ranges::count(tables_.writes[instance], value) > 0};
    if (input.copied) {
      const int copy = memory_.make(tables_.values[value].held_bytes);
      memory_.update_peak();
      memory_.drop(std::exchange(input.block, copy));
    }
    inputs.push_back(input);
  }
  return inputs;
}

void SavedActivationSimulator::run_op(int instance) {
  ++reruns_;
  double ms = 0, host_ms = 0;
  if (is_cast(instance)) {
    const RecordedStepSimulationTables::Value& value = tables_.values[cast_value(instance)];
    if (value.cast_of == plan::RecordedStepCosts::kCastOfOther) gathers_.read_again(value.run);
    memory_.update_peak(value.held_bytes);
    if (tables_.cast_bytes_per_ms > 0) ms = 2 * static_cast<double>(value.bytes) / tables_.cast_bytes_per_ms;
  } else {
    gathers_.read_again(instance);
    // The current generator state is kept meanwhile and restored after the op.
    memory_.update_peak(tables_.runs[instance].own_bytes + tables_.runs[instance].generator_bytes);
    ms = tables_.runs[instance].ms;
    host_ms = tables_.runs[instance].host_ms;
  }
  rerun_ms_ += clock_.run(costs_.rerun_ratio * ms, costs_.rerun_ratio * host_ms);
}

// Saved tensors of the same private value share its memory.
void SavedActivationSimulator::capture(int run) {
  const std::span<const int> saves = tables_.saves[run];
  for (const int number : saves)
    if (saved_[number].as == Saved::As::own) memory_.drop(std::exchange(saved_[number].captured, kNone));
  for (const int number : saves) {
    if (saved_[number].as != Saved::As::own) continue;
    const int value = costs_.saved[number].value;
    const auto shares = [&](int other) {
      return costs_.saved[other].value == value && saved_[other].captured != kNone;
    };
    const auto shared = std::ranges::find_if(saves, shares);
    saved_[number].captured =
        shared != saves.end() ? memory_.take(saved_[*shared].captured) : memory_.make(tables_.values[value].held_bytes);
  }
}

void SavedActivationSimulator::hold_outputs(int instance, const std::vector<Input>& inputs, int wanted) {
  for (const int v : outputs_of(instance)) {
    const Value& value = values_[v];
    if (value.maker != instance || value.references == 0 || !(value.used() || v == wanted)) continue;
    recomputed_bytes_ = bounded_sum(recomputed_bytes_, tables_.values[v].bytes);
    int block = kNone;
    if (tables_.values[v].in_place)
      for (const Input& input : inputs)
        if (tables_.values[input.value].storage == tables_.values[v].storage) block = memory_.take(input.block);
    if (block == kNone) block = memory_.make(tables_.values[v].held_bytes);
    hold_outputs(v, block, passes(instance) && !value.crosses);
  }
}

void SavedActivationSimulator::hold_outputs(int v, int block, bool unretained) {
  Value& value = values_[v];
  if (unretained) {
    memory_.drop(std::exchange(value.passed, block));
    const auto own = [&](const auto& passed) { return passed.first == tables_.values[v].block; };
    if (const auto found = std::ranges::find_if(unretained_, own); found != unretained_.end())
      found->second.push_back(v);
  } else if (state(value) == State::dropped) {
    value.held = block;
  } else {
    memory_.drop(block);
  }
}

void SavedActivationSimulator::end_inputs(int instance) {
  for (const int input : inputs_of(instance)) end_use(input, ConsumerKind::rerun);
}

}  // namespace memtune::planner
