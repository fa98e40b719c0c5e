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
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "core/autograd/hooks.h"
#include "core/checkpoint/recompute.h"
#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/device/device.h"
#include "core/offload/offload.h"
#include "core/program/interpreter.h"
#include "core/tier/host_tier.h"

namespace memtune::step {

class SavedTensor;

// Where values may go beside the device.
struct Tiers {
  int64_t host_budget_bytes = 0;            // 0: no limit
  std::unique_ptr<disk::BlockStore> store;  // null: no disk
};

class Executor final : public program::OpObserver, public autograd::Packer {
 public:
  // Everything passed must outlive the executor. UsageError when the plan names an op that the program does not have.
  Executor(const program::Program& program, const config::ProgramFacts& facts, const config::Plan& plan,
           device::Device& device, Tiers tiers = {});
  ~Executor() override;

  void begin_step();
  void end_forward();

  // Around one whole step, which resets the device's peak: from the next on, sources of copies may use what memory the
  // step leaves below its peak.
  void begin_learning();
  void end_learning();
  bool moves() const { return plan_.places(config::Place::host) || plan_.places(config::Place::disk); }

  // From now on the time of reruns and of waits for copies is taken.
  void turn_on_timers();

  void before(const program::Op& op, const program::Stack& inputs) override;
  void after(const program::Op& op, const program::Stack& outputs) override;
  std::unique_ptr<autograd::Ticket> pack(const at::Tensor& tensor) override;

  const offload::Offload& offload() const { return offload_; }
  const tier::HostTier& tier() const { return tier_; }
  int64_t reruns() const { return recompute_.reruns(); }
  double rerun_ms() { return recompute_.timer().ms(); }  // of the last step; the device is idle
  // What the engines took of the host's time in all, without the ops that were run again.
  std::chrono::nanoseconds host_time() const { return host_time_ - recompute_.host_time(); }
  double copy_stall_ms() { return offload_.waits().ms(); }

  // Who is told of what becomes of values; null: nobody.
  void set_recorder(trace::Recorder* recorder);
  // Reads and writes of the disk from the one to the other.
  void start_recording() { tier_.start_recording(); }
  std::vector<tier::HostTier::Io> stop_recording() { return tier_.stop_recording(); }
  // Calls with every value of this step that holds device memory now, and how much; each storage once.
  void visit_held(const std::function<void(const value::Value&, int64_t bytes)>& visit) const;
  const config::OpPlacement* placement(int op) const { return placements_[op]; }  // null: all stays

  struct Owner {
    std::string name;  // "layers.*.w1/aten::linear": the same op of all blocks
    int64_t bytes = 0;
  };
  // Who holds most device memory now, of the values of this step.
  std::vector<Owner> largest_owners(size_t most) const;

 private:
  friend class SavedTensor;
  using Impl = const c10::StorageImpl*;

  struct Written {  // a storage that the running op writes into
    Impl storage;
    int argument;
    at::Tensor tensor;
    uint32_t version;  // before the op
    value::ValuePtr old;
  };

  bool recomputes(const program::Op& op) const;
  bool is_ours(const at::Tensor& tensor) const;
  value::ValuePtr find(const at::Tensor& tensor) const;
  value::ValuePtr find_or_add(const at::Tensor& tensor);
  void note_written(const program::Op& op, const program::Stack& inputs);
  void replace_moved(const at::Tensor& moved);
  checkpoint::InstancePtr record(const program::Op& op, const program::Stack& inputs);
  checkpoint::TensorInput record_input(const at::Tensor& tensor);
  value::Use use(value::ValuePtr value, value::Use::By by);
  void replace_written(const program::Op& op);
  void add_outputs(const program::Op& op, const program::Stack& outputs);
  value::ValuePtr add_value(const at::Tensor& tensor, const value::Value::Origin& origin, config::Place place,
                            const checkpoint::InstancePtr& maker, int index);
  value::ValuePtr add_private(const at::Tensor& tensor, config::Place place, const checkpoint::InstancePtr& maker);
  checkpoint::InstancePtr record_cast(const SavedTensor& saved);
  void start_learning_op();
  void end_learning_op(const program::Op& op);
  void resolve(SavedTensor& saved);
  at::Storage bytes_of(value::Value& value, int block);
  at::Tensor saved_by(checkpoint::Instance& instance, int save, int block);
  void prefetch(int op);

  const program::Program& program_;
  const config::ProgramFacts& facts_;
  const config::Plan& plan_;
  device::Device& device_;
  std::vector<const config::OpPlacement*> placements_;  // by op
  std::unordered_set<Impl> parameters_;
  std::vector<int64_t> transients_;  // by op: bytes it takes at most while it runs, its outputs included
  tier::HostTier tier_;
  offload::Offload offload_;
  checkpoint::Recompute recompute_;

  std::unordered_map<Impl, value::ValuePtr> values_;  // of this forward
  std::vector<std::weak_ptr<value::Value>> all_;      // of this step
  bool head_begun_ = false;
  int block_ = -1;
  bool learning_ = false;
  trace::Recorder* recorder_ = nullptr;
  std::chrono::nanoseconds host_time_{0};
  int64_t forward_peak_ = 0, allocated_before_op_ = 0;

  // The running op.
  const program::Op* op_ = nullptr;
  checkpoint::InstancePtr instance_;
  std::vector<Written> written_;
  std::vector<Impl> inputs_;
  std::vector<at::Tensor> op_inputs_;  // where it may be run again
  bool autocast_ = false;              // around it: while it runs it is switched off already
  std::vector<SavedTensor*> pending_;  // saved by it, of storages that are not known yet
  int saves_ = 0;
};

}  // namespace memtune::step
