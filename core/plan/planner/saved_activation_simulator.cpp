#include "core/plan/planner/saved_activation_simulator.h"

#include <algorithm>

#include "core/record/trace/private_save.h"

namespace memtune::planner {

using plan::RecordedStepCosts;
using plan::TensorPlacement;

TensorPlacementsByOp::TensorPlacementsByOp(size_t ops, const plan::Plan& plan) : by_op_(ops), recomputes_(ops) {
  for (const plan::OneOpActivationPlacements& placement : plan.placements) {
    by_op_.at(placement.op) = &placement;
    recomputes_[placement.op] = placement.saved == TensorPlacement::recompute ||
                                std::ranges::count(placement.outputs, TensorPlacement::recompute) > 0;
  }
}

TensorPlacement TensorPlacementsByOp::output(int op, int i) const {
  const plan::OneOpActivationPlacements* placement = by_op_[op];
  return placement && static_cast<size_t>(i) < placement->outputs.size() ? placement->outputs[i]
                                                                         : TensorPlacement::keep;
}

SavedActivationSimulator::SavedActivationSimulator(const RecordedStepSimulationTables& tables,
                                                   const RecordedStepCosts& costs, const plan::Plan& plan, size_t ops,
                                                   SimulatedDeviceMemory& memory, SimulatedComputeAndHostClock& clock,
                                                   DeviceHostCopySimulator& copies, ParameterGatherSimulator& gathers)
    : tables_(tables),
      costs_(costs),
      plan_(plan),
      ops_(ops, plan),
      memory_(memory),
      clock_(clock),
      copies_(copies),
      gathers_(gathers),
      values_(tables.values.size()),
      instances_(tables.runs.size() + tables.values.size()),
      saved_(costs.saved.size()),
      cast_block_(tables.values.size(), -1) {
  for (size_t storage = 0; storage < tables.storage_bytes.size(); ++storage)
    // Resident before and after the step.
    if (tables.storage_bytes[storage] == 0) memory_.take(static_cast<int>(storage));
}

// --- forward ---------------------------------------------------------------------------------------------------------

void SavedActivationSimulator::before(int run) {
  const RecordedStepSimulationTables::Run& entry = tables_.runs[run];
  op_ = entry.op;
  if (entry.block != block_) {
    copies_.schedule().begin_block(entry.block);
    block_ = entry.block;
  }
  if (entry.after_blocks && !std::exchange(head_begun_, true)) copies_.schedule().begin_head();
  copies_.schedule().make_room(tables_.op_bytes[entry.op]);
  if (ops_.recomputes(entry.op) && !entry.writes_outside && !entry.on_host) {
    ++instances_[run].references;  // held by the running op
    if (entry.generator_bytes > 0) instances_[run].generator = memory_.make(entry.generator_bytes);
    record(run);
    if (whole_blocks()) {
      of_block_[entry.block].push_back(run);
      ++instances_[run].references;
    }
  }
  for (const int written : tables_.writes[run]) overwrite(written);
}

void SavedActivationSimulator::overwrite(int written) {
  Value& value = values_[written];
  if (!value.in_table) return;
  if (value.offloaded != kNone) copies_.before_overwrite(value.offloaded);
  if (value.uses[static_cast<int>(ConsumerKind::rerun)] == 0 || value.held == kNone) return;
  const int copy = memory_.make(tables_.values[written].held_bytes);
  memory_.drop(std::exchange(value.held, copy));
}

void SavedActivationSimulator::record(int instance) {
  instances_[instance].recorded = true;
  for (const int input : inputs_of(instance)) {
    if (!values_[input].in_table) add(input, TensorPlacement::keep, kNone);  // from outside of the step
    use(input, ConsumerKind::rerun);
  }
}

void SavedActivationSimulator::use(int v, ConsumerKind by) {
  Value& value = values_[v];
  refer(v);
  ++value.uses[static_cast<int>(by)];
  const RecordedStepSimulationTables::Value& entry = tables_.values[v];
  value.crosses = value.crosses || entry.block != block_;
  if (state(value) != State::unretained) return;
  if (value.place != TensorPlacement::keep && by == ConsumerKind::rerun) copies_.schedule().count_checkpoint_input();
  if (value.place == TensorPlacement::keep || !copies_.schedule().takes(entry.bytes))
    value.held = memory_.take(entry.storage);
  else
    value.offloaded =
        copies_.start_offload(entry.storage, entry.bytes, entry.held_bytes, value.place == TensorPlacement::disk, op_);
}

void SavedActivationSimulator::end_use(int v, ConsumerKind by) {
  --values_[v].uses[static_cast<int>(by)];
  if (!values_[v].used()) drop_bytes(values_[v]);
}

void SavedActivationSimulator::drop_bytes(Value& value) {
  memory_.drop(std::exchange(value.held, kNone));
  if (value.offloaded != kNone) copies_.forget(std::exchange(value.offloaded, kNone));
}

void SavedActivationSimulator::release(int v) {
  if (--values_[v].references > 0) return;
  drop_bytes(values_[v]);
  if (values_[v].maker != kNone) release_instance(std::exchange(values_[v].maker, kNone));
}

void SavedActivationSimulator::release_instance(int instance) {
  if (--instances_[instance].references > 0) return;
  memory_.drop(std::exchange(instances_[instance].generator, kNone));
  for (const int input : inputs_of(instance)) {
    if (!instances_[instance].done) end_use(input, ConsumerKind::rerun);
    release(input);
  }
}

SavedActivationSimulator::State SavedActivationSimulator::state(const Value& value) const {
  if (value.held != kNone) return State::held;
  if (value.offloaded != kNone) return State::offloaded;
  return value.maker != kNone ? State::dropped : State::unretained;
}

void SavedActivationSimulator::add(int v, TensorPlacement place, int maker) {
  Value& value = values_[v];
  value.in_table = true;
  refer(v);
  value.place = place;
  if (place != TensorPlacement::recompute) return;
  value.maker = maker;
  if (maker == kNone)
    value.place = TensorPlacement::keep;
  else
    ++instances_[maker].references;
}

void SavedActivationSimulator::remove(int v) {
  if (!std::exchange(values_[v].in_table, false)) return;
  release(v);
}

void SavedActivationSimulator::after(int run) {
  for (const int saved : tables_.saves[run])
    if (tables_.values[costs_.saved[saved].value].run != run) pack(saved);
  add_outputs(run);
  for (const int saved : tables_.saves[run])
    if (tables_.values[costs_.saved[saved].value].run == run) pack(saved);
  if (instances_[run].recorded) release_instance(run);
  memory_.pass(tables_.runs[run].scratch_bytes);
  for (const int storage : tables_.last_reads[run]) memory_.drop(storage);
  for (const int storage : tables_.never_read[run]) memory_.drop(storage);
  clock_.run(tables_.runs[run].ms, tables_.runs[run].host_ms);
  if (tables_.runs[run].host_waits) clock_.read_result();
}

void SavedActivationSimulator::add_outputs(int run) {
  const RecordedStepSimulationTables::Run& entry = tables_.runs[run];
  const int maker = instances_[run].recorded ? run : kNone;
  for (const int written : tables_.writes[run]) {
    values_[written].overwritten = true;
    remove(written);
  }
  for (const int made : tables_.makes[run]) {
    const RecordedStepSimulationTables::Value& value = tables_.values[made];
    if (value.cached()) memory_.take(value.storage);
    if (value.output == kPrivateSave) continue;
    if (!value.in_place) memory_.take(value.storage);
    add(made, value.outside ? TensorPlacement::keep : ops_.output(entry.op, value.output),
        value.outside ? kNone : maker);
  }
}

void SavedActivationSimulator::end_forward() {
  for (size_t v = 0; v < values_.size(); ++v) {
    remove(static_cast<int>(v));
    if (tables_.values[v].cached()) memory_.drop(tables_.values[v].storage);
  }
  copies_.schedule().end_forward();
}

// --- what autograd saves ---------------------------------------------------------------------------------------------

void SavedActivationSimulator::pack(int saved) {
  const auto [value, run] = costs_.saved[saved];
  if (values_[value].in_table)
    attach_value(saved);
  else if (tables_.values[value].output != kPrivateSave || !resolve_private(saved, value, run))
    stay(saved);
}

void SavedActivationSimulator::attach_value(int saved) {
  saved_[saved].as = Saved::As::value;
  use(costs_.saved[saved].value, ConsumerKind::backward);
}

void SavedActivationSimulator::stay(int saved) {
  saved_[saved].as = Saved::As::storage;
  memory_.take(tables_.values[costs_.saved[saved].value].storage);
}

// Returns false if the private tensor stays as it is.
bool SavedActivationSimulator::resolve_private(int saved, int v, int run) {
  const RecordedStepSimulationTables::Value& entry = tables_.values[v];
  const TensorPlacement place = ops_.saved(tables_.runs[run].op);
  const bool cast = entry.cast_of != RecordedStepCosts::kNoCast;
  if (place == TensorPlacement::keep || entry.bytes < plan_.saved_min_bytes) return false;
  if (place != TensorPlacement::recompute) {
    if (entry.cast_of == RecordedStepCosts::kCastOfOther) return false;
    add(v, place, kNone);
    attach_value(saved);
    return true;
  }
  if (!tables_.writes[run].empty()) return false;
  if (cast) {
    cast_block_[v] = block_;
    record(cast_base() + v);
    add(v, place, cast_base() + v);
    attach_value(saved);
    return true;
  }
  if (!instances_[run].recorded) return false;
  saved_[saved].as = Saved::As::own;
  ++instances_[run].references;
  ++instances_[run].captures;
  return true;
}

// --- backward --------------------------------------------------------------------------------------------------------

void SavedActivationSimulator::unpack(int number) {
  Saved& saved = saved_[number];
  const auto [value, run] = costs_.saved[number];
  copies_.schedule().enter_backward_block(tables_.runs[run].block);
  if (saved.as != Saved::As::value && saved.as != Saved::As::own) return;
  copies_.begin_unpack(&tables_.runs[run]);
  block_ = tables_.runs[run].block;
  saved.unpacked_block = saved.as == Saved::As::value ? bytes(value) : saved_by(number);
  const int maker = tables_.values[value].run;
  copies_.schedule().prefetch(/*in_head=*/maker >= 0 && tables_.runs[maker].after_blocks);
}

void SavedActivationSimulator::end(int number) {
  Saved& saved = saved_[number];
  const auto [value, run] = costs_.saved[number];
  memory_.drop(std::exchange(saved.unpacked_block, kNone));
  const Saved::As as = std::exchange(saved.as, Saved::As::nothing);
  if (as == Saved::As::storage) memory_.drop(tables_.values[value].storage);
  if (as == Saved::As::value) {
    end_use(value, ConsumerKind::backward);
    release(value);
  }
  if (as != Saved::As::own) return;
  memory_.drop(std::exchange(saved.captured, kNone));
  --instances_[run].captures;
  release_instance(run);
}

}  // namespace memtune::planner
