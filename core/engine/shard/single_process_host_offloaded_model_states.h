// Parameters, gradients and optimizer states of one process that are in host memory while no op uses them. Units,
// usually blocks, are loaded a unit ahead in forward and backward, and updated on the device;
// schedule::ModelStateOffloadScheduler decides when.
//
// Thread: the training thread.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/engine/optimizer/optimizer.h"
#include "core/engine/shard/gather_schedule_read_notifier.h"
#include "core/engine/shard/single_process_offloaded_unit_states.h"
#include "core/engine/shard/units.h"
#include "core/model/program/op_and_phase_parameter_residency_hooks.h"
#include "core/model/program/program.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/schedule/model_state_offload_scheduler.h"
#include "core/plan/strategy/plan.h"

namespace memtune::shard {

// Is called around each copy, update and release. The device may have work queued.
class OffloadedStateCopyAndUpdateObserver {
 public:
  virtual ~OffloadedStateCopyAndUpdateObserver() = default;
  virtual void before_change() = 0;
  virtual void after_change(bool updated) = 0;
};

class SingleProcessHostOffloadedModelStates final : public program::OpAndPhaseParameterResidencyHooks,
                                                    schedule::ModelStateCopyAndUpdateBackend {
 public:
  // Takes the parameters that `plan` places in host memory there. `program` and `device` must outlive this. Report
  // every read of a parameter. Throws UsageError if the model's parameters cannot be moved, and OutOfHostMemoryError.
  SingleProcessHostOffloadedModelStates(const program::Program& program, const plan::ProgramFacts& facts,
                                        const plan::Plan& plan, device::Device& device);
  ~SingleProcessHostOffloadedModelStates() override;
  SingleProcessHostOffloadedModelStates(const SingleProcessHostOffloadedModelStates&) = delete;
  SingleProcessHostOffloadedModelStates& operator=(const SingleProcessHostOffloadedModelStates&) = delete;

  const std::vector<ParameterUnit>& units() const { return units_; }  // find_units() of before they were moved

  // Every step updates the parameters from now on; until then, gradients stay on them. `optimizer`: of the program's
  // parameters; it must outlive all further steps. `passes`: micro-batches of a step.
  void update_with(optimizer::Optimizer& optimizer, int passes);
  // Runs the updates that wait for the next forward.
  void finish_updates() { schedule_->finish_updates(); }
  // Makes the optimizer states of these parameters, to load saved ones into.
  void make_moments(const std::vector<size_t>& parameters) {
    for (const std::unique_ptr<SingleProcessOffloadedUnitStates>& group : groups_) group->make_moments(parameters);
  }
  // A parameter or an optimizer state; its bytes in host memory if they are not on the device. No update may be pending
  // and no copy run.
  at::Tensor with_bytes(const at::Tensor& state) const;

  // By how much less is allocated now than if nothing were offloaded, and the gradients in that. `keeps_gradients`:
  // those that an update in backward has used count until end_step(), as without an optimizer in backward. `watcher`
  // null: none from now on.
  void set_watcher(OffloadedStateCopyAndUpdateObserver* watcher, bool keeps_gradients);
  int64_t moved_bytes() const;
  int64_t moved_gradient_bytes() const;
  void end_step();

  // Totals.
  struct Counters {
    int64_t in_bytes = 0, out_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  int64_t host_bytes() const { return host_.bytes(); }

  void before(const program::Op& op, const program::Stack& inputs) override { reads_->before(op, inputs); }
  void after(const program::Op& op, const program::Stack& outputs) override { reads_->after(op, outputs); }
  void before_rerun(const program::Stack& inputs) override { reads_->before_recomputation(inputs); }
  void begin_step() override;
  void begin_forward() override { schedule_->begin_forward(); }
  void begin_backward() override;
  void end_backward() override;
  void drop() override { schedule_->drop(); }

 private:
  struct GradientHook;  // of each trained parameter

  bool offloads(int group) const override { return groups_[group]->offloads(); }
  bool has_gradients(int group) const override { return groups_[group]->has_gradients(); }
  void load(int group, schedule::ModelStateKind row) override;
  void wait(int group, schedule::ModelStateKind row) override;
  void store(int group, schedule::ModelStateKind row) override;
  void free(int group, schedule::ModelStateKind row) override;
  void settle(int group) override;
  void take_gradients(int group) override;
  void note_norms(int group) override;
  void begin_clipping() override;
  void update(int group) override;
  template <class Function>
  void change(Function function, bool updates = false);
  std::optional<HostOffloadedTensor>& row(int group, schedule::ModelStateKind row) { return groups_[group]->row(row); }

  const std::vector<ParameterUnit> units_;
  PinnedTensorAllocatorAndCopier host_;
  device::Device& device_;
  std::vector<std::unique_ptr<SingleProcessOffloadedUnitStates>> groups_;
  std::optional<schedule::ModelStateOffloadScheduler> schedule_;
  std::optional<GatherScheduleReadNotifier> reads_;
  optimizer::Optimizer* optimizer_ = nullptr;
  SingleProcessOffloadedUnitStates::Norms norms_;
  at::Tensor factor_;  // of the gradients of pending updates
  Counters counters_;
  OffloadedStateCopyAndUpdateObserver* watcher_ = nullptr;
  bool keeps_gradients_ = false, in_backward_ = false;
  int64_t used_gradient_bytes_ = 0;  // by updates of this backward
  std::set<int> used_before_;        // groups whose pending gradients are those of an earlier step
};

}  // namespace memtune::shard
