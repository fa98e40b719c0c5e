#include "core/engine/step/activation_plan_executor.h"

#include <torch/csrc/autograd/function.h>

#include "core/base/device/torch/torch_device.h"
#include "core/base/scoped_timer.h"
#include "core/model/ops/autocast.h"
#include "core/model/program/tensors.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::step {

using plan::TensorPlacement;
using program::Stack;

namespace {

std::vector<at::Tensor> parameters_of(const program::Program& program) {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : program.state.parameters) parameters.push_back(parameter);
  return parameters;
}

}  // namespace

ActivationPlanExecutor::ActivationPlanExecutor(const program::Program& program, const plan::ProgramFacts& facts,
                                               const plan::Plan& plan, device::Device& device,
                                               HostBudgetAndScratchStore tiers)
    : facts_(facts),
      plan_(plan),
      device_(device::torch_device(device)),
      ops_(plan_ops(facts, plan)),
      memory_(device, ops_.size()),
      tier_(device, schedule::host_slab_bytes(device.emulated()), tiers.host_budget_bytes, std::move(tiers.store),
            plan.transfer.pinned, plan.transfer.compatibility.power_of_two),
      offload_(device, plan.transfer, tier_),
      recompute_(device, plan.nested, plan.transfer.compatibility.whole_blocks),
      recorder_(recompute_, device_),
      values_(step_, offload_, memory_, device_, parameters_of(program)),
      saves_(step_, plan, ops_, values_, offload_, recorder_,
             SavedTensorOffloadSelectorAndCompactor(plan.transfer, device_, parameters_of(program))) {}

void ActivationPlanExecutor::begin_step() {
  const ScopedTimer host(host_time_);
  values_.begin_step();
  saves_.begin_step();
  recompute_.begin_step();
  step_.running.end();
  step_.head_begun = false;
  step_.block = -1;
  recompute_.timer().clear();
  offload_.begin_step();
  if (step_.costs) step_.costs->begin_pass();
}

// From here on, only saved tensors keep values and the inputs of recomputations alive.
void ActivationPlanExecutor::end_forward() {
  const ScopedTimer host(host_time_);
  values_.end_forward();
  step_.running.end();
  offload_.end_forward();
  memory_.end_forward();
  if (step_.costs) step_.costs->end_forward();
}

// A step with a small stash shows the peak that the plan needs, and the memory of each op.
void ActivationPlanExecutor::begin_learning() {
  memory_.begin_learning();
  offload_.begin_learning();
}

void ActivationPlanExecutor::end_learning() {
  memory_.end_learning();
  offload_.end_learning(memory_.forward_peak());
}

void ActivationPlanExecutor::enable_timers() {
  recompute_.timer().enable();
  offload_.waits().enable();
}

void ActivationPlanExecutor::set_recorder(trace::ActivationEventRecorder* recorder) {
  step_.trace = recorder;
  offload_.set_recorder(recorder);
  recompute_.set_recorder(recorder);
}

void ActivationPlanExecutor::enter(const OpPlan& op) {
  if (op.block != step_.block) {
    offload_.begin_block(op.block);
    saves_.begin_block();
    step_.block = op.block;
  }
  if (op.after_blocks && !step_.head_begun) {
    offload_.begin_head();
    step_.head_begun = true;
  }
}

void ActivationPlanExecutor::before(const program::Op& op, const Stack& inputs) {
  const ScopedTimer host(host_time_);
  const OpPlan& plan = ops_[op.id];
  enter(plan);
  offload_.make_room(memory_.bytes(op.id));
  step_.running.begin(op, inputs, values_.table(), ops::AutocastState::now(device_.type()).enabled);
  if (plan.recomputes && !step_.running.writes_outside()) record(op, inputs);
  for (const auto& written : step_.running.written())
    if (written.value) written.value->before_overwrite();
  for (const int moved : op.updates_statistics)
    if (inputs.at(moved).isTensor()) values_.overwrite(inputs[moved].toTensor());
  memory_.before_op();
  if (step_.costs) step_.costs->begin_run(step_.running, values_.table());
}

void ActivationPlanExecutor::record(const program::Op& op, const Stack& inputs) {
  const auto use = [this](const at::Tensor& tensor) { return values_.use_for_recomputation(tensor); };
  step_.running.instance = recorder_.record(op, inputs, step_.block, use);
  recompute_.recorded(step_.running.instance);
}

void ActivationPlanExecutor::after(const program::Op& op, const Stack& outputs) {
  const ScopedTimer host(host_time_);
  const OpPlan& plan = ops_[op.id];
  memory_.after_op(op.id);
  if (step_.costs) step_.costs->end_run();
  replace_written(plan);
  add_outputs(plan, outputs);
  if (step_.running.instance) step_.running.instance->saves = step_.running.saves();
  saves_.end_op();
  step_.running.end();
}

void ActivationPlanExecutor::replace_written(const OpPlan& plan) {
  for (const auto& written : step_.running.written()) {
    values_.overwritten(written.storage);
    const bool outside = written.from_outside();
    values_.add(written.tensor, outside ? -1 : step_.running.op().id, 0,
                outside ? TensorPlacement::keep : plan.output(0), step_.running.instance, -1 - written.argument);
  }
}

void ActivationPlanExecutor::add_outputs(const OpPlan& plan, const Stack& outputs) {
  int index = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    program::for_each_tensor(outputs[i], [&](const at::Tensor& tensor) {
      const int output = index++;
      if (!values_.table().covers(tensor)) return;
      const auto storage = StorageToActivationTable::storage_of(tensor);
      if (values_.table().has(storage) || step_.running.reads(storage)) return;
      values_.add(tensor, step_.running.op().id, output, plan.output(i), step_.running.instance, output);
    });
}

std::unique_ptr<autograd::PackedSavedTensor> ActivationPlanExecutor::pack(const at::Tensor& tensor) {
  const ScopedTimer host(host_time_);
  RunningOpStoragesAndPendingSaves& running = step_.running;
  auto saved = std::make_unique<SavedTensorHandle>(*this, tensor, step_.block, running.next_save(),
                                                   running ? running.op().id : -1);
  saves_.save(*saved, tensor);
  return saved;
}

at::Tensor ActivationPlanExecutor::unpack(SavedTensorHandle& saved) {
  const ScopedTimer host(host_time_);
  saved.check_version();
  if (step_.trace) step_.trace->used(saved.key(), saved.block());
  if (step_.costs) step_.costs->unpack_began(saved);
  offload_.enter_backward_block(saved.block());
  at::Tensor tensor = saved.stays() ? saved.tensor() : bytes_of(saved);
  if (step_.costs)
    step_.costs->unpack_ended(saved);  // costs are those of a step that recomputes nothing
  else if (!torch::autograd::get_current_graph_task_keep_graph())
    saved.release_recomputed();
  return tensor;
}

at::Tensor ActivationPlanExecutor::bytes_of(const SavedTensorHandle& saved) {
  offload_.begin_unpack(torch::autograd::get_current_node().get());
  recompute_.enter_block(saved.block());
  at::Tensor tensor = saved.tensor();
  const int op = saved.key().op;
  offload_.prefetch(/*in_head=*/op >= 0 && ops_[op].after_blocks);
  return tensor;
}

void ActivationPlanExecutor::release_began(const SavedTensorHandle& saved) noexcept {
  if (saved.stays()) step_.running.forget(saved);
  if (step_.costs) step_.costs->release_began(saved);
}

void ActivationPlanExecutor::release_ended() noexcept {
  if (step_.costs) step_.costs->release_ended();
}

}  // namespace memtune::step
