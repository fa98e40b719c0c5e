// Runs a plan: sees every op of the forward and every tensor that autograd saves, and gives each value its place.
//
// One forward and backward at a time, on one thread:
//
//   executor.begin_step();
//   { autograd::HookScope hooks(&executor); loss = interpreter.run(inputs, &executor); }
//   executor.end_forward();
//   autograd::backward(loss);
#pragma once

#include <chrono>
#include <set>
#include <utility>

#include "core/checkpoint/recompute.h"
#include "core/checkpoint/recorder.h"
#include "core/offload/offload.h"
#include "core/program/interpreter.h"
#include "core/step/cost_recorder.h"
#include "core/step/op_memory.h"
#include "core/step/op_plan.h"
#include "core/step/running_op.h"
#include "core/step/saved_copies.h"
#include "core/step/saved_tensor.h"
#include "core/step/value_table.h"
#include "core/tier/host_tier.h"

namespace memtune::step {

// Where values may go beside the device.
struct Tiers {
  int64_t host_budget_bytes = 0;            // 0: no limit
  std::unique_ptr<disk::BlockStore> store;  // null: no disk
};

class Executor final : public program::OpObserver, public autograd::Packer, public SavedTensor::Unpacker {
 public:
  // Everything passed must outlive the executor. UsageError when the plan names an op that the program does not have.
  Executor(const program::Program& program, const config::ProgramFacts& facts, const config::Plan& plan,
           device::Device& device, Tiers tiers = {});

  void begin_step();
  void end_forward();

  // Around one whole step, which resets the device's peak: from the next on, sources of copies may use what memory the
  // step leaves below its peak.
  void begin_learning();
  void end_learning();
  bool moves() const { return plan_.moves(); }

  // From now on the time of reruns and of waits for copies is taken.
  void turn_on_timers();

  void before(const program::Op& op, const program::Stack& inputs) override;
  void after(const program::Op& op, const program::Stack& outputs) override;
  std::unique_ptr<autograd::Ticket> pack(const at::Tensor& tensor) override;

  // The most host memory from now on, of which nothing is given back; 0: no limit.
  void set_host_budget(int64_t bytes) { tier_.set_budget(bytes); }

  const ValueTable& values() const { return values_; }
  const offload::Offload& offload() const { return offload_; }
  const tier::HostTier& tier() const { return tier_; }
  int64_t reruns() const { return recompute_.reruns(); }
  int64_t recomputed_bytes() const { return recompute_.made_bytes(); }
  double rerun_ms() { return recompute_.timer().ms(); }  // of the last step; the device is idle
  // What the engines took of the host's time in all, without the ops that were run again.
  std::chrono::nanoseconds host_time() const { return host_time_ - recompute_.host_time(); }
  double copy_stall_ms() { return offload_.waits().ms(); }

  // See Recompute. Views of parameters that come and go stay.
  void set_parameters(program::ParameterSource* parameters) {
    recompute_.set_parameters(parameters);
    if (parameters) copies_.keep_parameter_views();
  }

  // Who is told of what becomes of values; null: nobody.
  void set_recorder(trace::Recorder* recorder);
  // Who is told of the costs of steps, of a plan that moves nothing; null: nobody.
  void set_cost_recorder(CostRecorder* recorder) { costs_ = recorder; }
  // Reads and writes of the disk from the one to the other.
  void start_recording() { tier_.start_recording(); }
  std::vector<tier::HostTier::Io> stop_recording() { return tier_.stop_recording(); }
  const config::OpPlacement* placement(int op) const { return ops_[op].placement; }  // null: all stays
  // Whether a save of it left by itself while a recorder was told.
  bool sent(const trace::ValueKey& key) const { return sent_.contains({key.op, key.output}); }
  std::vector<Holder> largest_holders(size_t most) const { return step::largest_holders(values_, facts_, most); }

 private:
  at::Tensor unpack(const SavedTensor& saved) override;
  at::Tensor bytes_of(const SavedTensor& saved, const trace::ValueKey& key);
  void ended(const SavedTensor& saved) noexcept override;
  void let_go() noexcept override;

  void enter(const OpPlan& op);
  void overwrite(const at::Tensor& tensor);
  void record(const program::Op& op, const program::Stack& inputs);
  autograd::Use use(autograd::ValuePtr value, autograd::Use::By by);
  autograd::Use use_for_rerun(const at::Tensor& tensor);
  void replace_written(const OpPlan& plan);
  void add_outputs(const OpPlan& plan, const program::Stack& outputs);
  autograd::ValuePtr add_value(const at::Tensor& tensor, int op, int output, config::Place place,
                               const checkpoint::InstancePtr& maker, int index);
  void become(SavedTensor& saved, autograd::ValuePtr value);
  bool sends_saves() const;
  bool may_be_written(const at::Tensor& tensor) const;
  void send_save(SavedTensor& saved, const at::Tensor& tensor);
  void resolve(const RunningOp::Waiting& waiting);
  void resolve_private(const RunningOp::Waiting& waiting);
  void tell_costs_of_private(const RunningOp::Waiting& waiting, const at::Tensor& tensor);

  const config::ProgramFacts& facts_;
  const config::Plan& plan_;
  c10::Device device_;
  std::vector<OpPlan> ops_;
  OpMemory memory_;
  tier::HostTier tier_;
  offload::Offload offload_;
  checkpoint::Recompute recompute_;
  checkpoint::OpRecorder recorder_;
  ValueTable values_;
  SavedCopies copies_;
  RunningOp running_;
  bool head_begun_ = false;
  int block_ = -1;
  trace::Recorder* trace_ = nullptr;
  std::set<std::pair<int, int>> sent_;
  CostRecorder* costs_ = nullptr;
  std::chrono::nanoseconds host_time_{0};
};

}  // namespace memtune::step
