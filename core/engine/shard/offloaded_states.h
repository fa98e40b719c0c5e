// Parameters, gradients and optimizer states of one process that are in host memory while no op uses them. Units,
// usually blocks, are loaded a unit ahead in forward and backward. As soon as backward has made all gradients of a
// unit, the optimizer updates it on the device, and what it changed goes back to host memory:
//
//   backward   block 2   update 2 | block 1   update 1 | block 0
//   in         moments 2 params 1 | moments 1 params 0 | moments 0
//   out                           | block 2            | block 1
//
// Gradient accumulation and clipping need all gradients before the first update. Then gradients go to host memory too,
// and a unit is updated when the next forward loads it, or by finish_updates().
//
// Thread: the training thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/optimizer/optimizer.h"
#include "core/engine/shard/parameter_reads.h"
#include "core/engine/shard/state_rows.h"
#include "core/model/program/parameter_provider.h"
#include "core/model/program/program.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/schedule/unit_gather_schedule.h"
#include "core/plan/strategy/plan.h"

namespace memtune::shard {

class OffloadedStates final : public program::ParameterProvider, schedule::UnitStorage {
 public:
  // Takes the parameters that `plan` places in host memory there. `program` and `device` must outlive this. Report
  // every read of a parameter. Throws UsageError if the model's parameters cannot be moved, and OutOfHostMemoryError.
  OffloadedStates(const program::Program& program, const plan::ProgramFacts& facts, const plan::Plan& plan,
                  device::Device& device);
  ~OffloadedStates() override;
  OffloadedStates(const OffloadedStates&) = delete;
  OffloadedStates& operator=(const OffloadedStates&) = delete;

  // Every step updates the parameters from now on; until then, gradients stay on them. `optimizer`: of the program's
  // parameters; it must outlive all further steps. `passes`: micro-batches of a step.
  void update_with(optimizer::Optimizer& optimizer, int passes);
  // Runs the updates that wait for the next forward.
  void finish_updates();

  // A parameter or an optimizer state; its bytes in host memory if they are not on the device. No update may be pending
  // and no copy run.
  at::Tensor with_bytes(const at::Tensor& state) const;

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
  void begin_forward() override;
  void begin_backward() override;
  void end_backward() override;
  void drop() override;

 private:
  struct GradientHook;  // of each trained parameter
  struct Flat {
    std::unique_ptr<StateRows> rows;
    int unit = 0;
    size_t gradients = 0;  // made by this backward
    bool ended = false;    // this backward has made all gradients that it makes
    bool in_use = false;   // gathered by the schedule
    bool pending = false;  // its update waits for the next forward
  };
  enum class Pass { none, forward, backward };

  void gather(int unit) override;
  void wait(int unit) override;
  void free(int unit) override;
  void add_flat(const std::string& name, const program::NamedTensors& parameters, const plan::StatePlacement& place);
  void on_gradient(size_t flat);
  void end_gradients(Flat& flat);
  void begin_updates();
  void update(Flat& flat);
  void load_for_update(Flat& flat);
  void load(std::optional<HostBackedTensor>& row);
  void store(std::optional<HostBackedTensor>& row);
  void settle(int but_unit);
  bool clips() const { return optimizer_ != nullptr && optimizer_->max_grad_norm() > 0; }

  PinnedShards host_;
  device::Device& device_;
  std::vector<Flat> flats_;
  std::vector<std::vector<size_t>> units_;  // their flats
  std::optional<schedule::UnitGatherSchedule> schedule_;
  std::optional<ParameterReads> reads_;
  optimizer::Optimizer* optimizer_ = nullptr;
  int passes_ = 1, passes_left_ = 1;  // micro-batches of a step; those not begun
  Pass pass_ = Pass::none;
  StateRows::Norms norms_;
  at::Tensor factor_;  // of the gradients of pending updates
  Counters counters_;
};

}  // namespace memtune::shard
