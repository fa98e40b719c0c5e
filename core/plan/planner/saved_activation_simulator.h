// Values of a simulated step: who uses them, what recomputes them and where they are. It does what
// autograd::SavedStorage, checkpoint::RecordedOp and step::ActivationPlanExecutor do, with reference counts instead of
// tensors. For one forward and backward.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/planner/device_host_copy_simulator.h"
#include "core/plan/planner/parameter_gather_simulator.h"
#include "core/plan/planner/recorded_step_simulation_tables.h"
#include "core/plan/planner/simulated_compute_and_host_clock.h"
#include "core/plan/planner/simulated_device_memory.h"
#include "core/plan/strategy/plan.h"

namespace memtune::planner {

// Places of a plan, by op.
class TensorPlacementsByOp {
 public:
  TensorPlacementsByOp(size_t ops, const plan::Plan& plan);
  plan::TensorPlacement output(int op, int i) const;
  plan::TensorPlacement saved(int op) const { return by_op_[op] ? by_op_[op]->saved : plan::TensorPlacement::keep; }
  bool recomputes(int op) const { return recomputes_[op]; }

 private:
  std::vector<const plan::OneOpActivationPlacements*> by_op_;  // null: everything is kept
  std::vector<bool> recomputes_;
};

class SavedActivationSimulator {
 public:
  // All arguments must outlive it.
  SavedActivationSimulator(const RecordedStepSimulationTables& tables, const plan::RecordedStepCosts& costs,
                           const plan::Plan& plan, size_t ops, SimulatedDeviceMemory& memory,
                           SimulatedComputeAndHostClock& clock, DeviceHostCopySimulator& copies,
                           ParameterGatherSimulator& gathers);

  void before(int run);
  void after(int run);
  void end_forward();
  void unpack(int saved);
  void end(int saved);

  int64_t reruns() const { return reruns_; }
  int64_t recomputed_bytes() const { return recomputed_bytes_; }
  double rerun_ms() const { return rerun_ms_; }

 private:
  using TensorPlacement = plan::TensorPlacement;
  enum class State { unretained, held, offloaded, dropped };
  enum class ConsumerKind { backward, rerun };
  static constexpr int kNone = -1;

  struct Value {
    TensorPlacement place = TensorPlacement::keep;
    bool overwritten = false, crosses = false, in_table = false;
    int references = 0;
    int uses[2] = {0, 0};  // indexed by By
    int held = kNone, offloaded = kNone, maker = kNone, passed = kNone;
    bool used() const { return uses[0] + uses[1] > 0; }
  };
  // A recorded op, which can be recomputed. Runs come first, by their numbers; then casts, by the numbers of their
  // values.
  struct RecordedOp {
    int references = 0;
    bool recorded = false, done = false;
    int captures = 0;  // uses of private tensors
    int generator = kNone;
  };
  struct Saved {
    enum class As { nothing, storage, value, own } as = As::nothing;
    int captured = kNone;        // memory block of a recomputed private tensor (As::own)
    int unpacked_block = kNone;  // memory block that unpack returned, until backward has used it
  };

  void overwrite(int value);
  void record(int instance);
  void use(int value, ConsumerKind by);
  void end_use(int value, ConsumerKind by);
  void drop_bytes(Value& value);
  void refer(int value) { ++values_[value].references; }
  void release(int value);
  void release_instance(int instance);
  void add(int value, TensorPlacement place, int maker);
  void remove(int value);
  void add_outputs(int run);
  void pack(int saved);
  void attach_value(int saved);
  void stay(int saved);
  bool resolve_private(int saved, int value, int run);
  State state(const Value& value) const;
  bool alive(int value) const { return !values_[value].overwritten && memory_.alive(tables_.values[value].storage); }
  int cast_base() const { return static_cast<int>(tables_.runs.size()); }
  bool is_cast(int instance) const { return instance >= cast_base(); }
  int cast_value(int instance) const { return instance - cast_base(); }
  int block_of(int instance) const {
    return is_cast(instance) ? cast_block_[cast_value(instance)] : tables_.runs[instance].block;
  }
  std::span<const int> inputs_of(int instance) const;
  std::span<const int> outputs_of(int instance) const;

  // In step_reruns.cpp. A memory block that is returned has one more reference.
  struct Input {
    int value, block;
    bool copied;  // because the op writes into it
  };
  int bytes(int value);
  int make(int instance, int value);
  int saved_by(int saved);
  void run(int instance, int wanted);
  void rerun_block(int block);
  void rerun(int instance, int wanted);
  std::vector<Input> take_inputs(int instance);
  void run_op(int instance);
  void capture(int run);
  void hold_outputs(int instance, const std::vector<Input>& inputs, int wanted);
  void hold_outputs(int value, int block, bool unretained);
  void end_inputs(int instance);
  bool whole_blocks() const { return plan_.transfer.compatibility.whole_blocks && !plan_.nested; }
  bool passes(int instance) const { return plan_.nested && block_of(instance) != block_; }

  const RecordedStepSimulationTables& tables_;
  const plan::RecordedStepCosts& costs_;
  const plan::Plan& plan_;
  const TensorPlacementsByOp ops_;
  SimulatedDeviceMemory& memory_;
  SimulatedComputeAndHostClock& clock_;
  DeviceHostCopySimulator& copies_;
  ParameterGatherSimulator& gathers_;
  std::vector<Value> values_;
  std::vector<RecordedOp> instances_;
  std::vector<Saved> saved_;
  std::vector<int> cast_block_;                               // by value: block of the run that saved it
  std::map<int, std::vector<int>> of_block_;                  // whole_blocks: recorded and not yet recomputed, by block
  std::vector<std::pair<int, std::vector<int>>> unretained_;  // nested recomputation: block, values held until it ends
  int block_ = -1, op_ = -1;                                  // of the run that is simulated
  bool head_begun_ = false;
  int64_t reruns_ = 0, recomputed_bytes_ = 0;
  double rerun_ms_ = 0;
};

}  // namespace memtune::planner
