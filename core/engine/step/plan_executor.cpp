#include "core/engine/step/plan_executor.h"

#include <ATen/autocast_mode.h>

#include "core/base/device/torch/torch_device.h"
#include "core/base/scoped_timer.h"
#include "core/model/program/tensors.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::step {

using autograd::ConsumerHandle;
using autograd::SavedStorage;
using autograd::SavedStoragePtr;
using checkpoint::RecordedOpPtr;
using plan::TensorPlacement;
using program::Stack;

namespace {

std::vector<at::Tensor> parameters_of(const program::Program& program) {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : program.state.parameters) parameters.push_back(parameter);
  return parameters;
}

}  // namespace

PlanExecutor::PlanExecutor(const program::Program& program, const plan::ProgramFacts& facts, const plan::Plan& plan,
                           device::Device& device, OffloadTiers tiers)
    : facts_(facts),
      plan_(plan),
      device_(device::torch_device(device)),
      ops_(plan_ops(facts, plan)),
      memory_(device, ops_.size()),
      tier_(device, device.emulated() ? schedule::kCpuSlabBytes : schedule::kCudaSlabBytes, tiers.host_budget_bytes,
            std::move(tiers.store), plan.transfer.pinned, plan.transfer.compatibility.power_of_two),
      offload_(device, plan.transfer, tier_),
      recompute_(device, plan.nested, plan.transfer.compatibility.whole_blocks),
      recorder_(recompute_, device_),
      values_(device_, parameters_of(program)),
      copies_(plan.transfer, device_, parameters_of(program)) {}

void PlanExecutor::begin_step() {
  const ScopedTimer host(host_time_);
  values_.begin_step();
  copies_.begin_step();
  recompute_.begin_step();
  running_.end();
  head_begun_ = false;
  block_ = -1;
  recompute_.timer().clear();
  offload_.begin_step();
  if (costs_) costs_->begin_pass();
}

// From here on, only saved tensors keep values and the inputs of recomputations alive.
void PlanExecutor::end_forward() {
  const ScopedTimer host(host_time_);
  values_.end_forward();
  running_.end();
  offload_.end_forward();
  memory_.end_forward();
  if (costs_) costs_->end_forward();
}

// A step with a small stash shows the peak that the plan needs, and the memory of each op.
void PlanExecutor::begin_learning() {
  memory_.begin_learning();
  offload_.begin_learning();
}

void PlanExecutor::end_learning() {
  memory_.end_learning();
  offload_.end_learning(memory_.forward_peak());
}

void PlanExecutor::enable_timers() {
  recompute_.timer().enable();
  offload_.waits().enable();
}

void PlanExecutor::set_recorder(trace::ValueEventRecorder* recorder) {
  trace_ = recorder;
  offload_.set_recorder(recorder);
  recompute_.set_recorder(recorder);
}

void PlanExecutor::enter(const OpPlan& op) {
  if (op.block != block_) {
    offload_.begin_block(op.block);
    copies_.begin_block();
    block_ = op.block;
  }
  if (op.after_blocks && !head_begun_) {
    offload_.begin_head();
    head_begun_ = true;
  }
}

void PlanExecutor::before(const program::Op& op, const Stack& inputs) {
  const ScopedTimer host(host_time_);
  const OpPlan& plan = ops_[op.id];
  enter(plan);
  offload_.make_room(memory_.bytes(op.id));
  running_.begin(op, inputs, values_, at::autocast::is_autocast_enabled(device_.type()));
  if (plan.recomputes && !running_.writes_outside()) record(op, inputs);
  for (const auto& written : running_.written())
    if (written.value) written.value->before_overwrite();
  for (const int moved : op.updates_statistics)
    if (inputs.at(moved).isTensor()) overwrite(inputs[moved].toTensor());
  memory_.before_op();
  if (costs_) costs_->begin_run(running_, values_);
}

// Later reads of the storage see other bytes.
void PlanExecutor::overwrite(const at::Tensor& tensor) {
  if (!values_.covers(tensor)) return;
  const auto storage = SavedStorageTable::storage_of(tensor);
  if (const SavedStoragePtr value = values_.find(storage)) value->before_overwrite();
  values_.overwritten(storage);
}

void PlanExecutor::record(const program::Op& op, const Stack& inputs) {
  running_.instance =
      recorder_.record(op, inputs, block_, [this](const at::Tensor& tensor) { return use_for_rerun(tensor); });
  recompute_.recorded(running_.instance);
}

ConsumerHandle PlanExecutor::use_for_rerun(const at::Tensor& tensor) {
  if (!values_.covers(tensor)) return {};
  return use(values_.find_or_add(tensor), ConsumerHandle::ConsumerKind::rerun);
}

// Adds a consumer that needs the value after the forward. The first consumer keeps or offloads the value.
ConsumerHandle PlanExecutor::use(SavedStoragePtr value, ConsumerHandle::ConsumerKind by) {
  ConsumerHandle use(std::move(value), by);
  use->add_consumer_block(block_);
  if (use->state() != SavedStorage::State::unretained) return use;
  if (use->place() == TensorPlacement::keep) {
    use->hold(use->live_storage());
    return use;
  }
  if (by ==
      ConsumerHandle::ConsumerKind::rerun) {  // counts as two saves, like a checkpoint's: its input and an empty tensor
    offload_.count_save();
    offload_.count_save();
  }
  memory_.before_leaving();
  offload_.start_offload(*use, running_.op().id);
  memory_.after_leaving();
  return use;
}

void PlanExecutor::after(const program::Op& op, const Stack& outputs) {
  const ScopedTimer host(host_time_);
  const OpPlan& plan = ops_[op.id];
  memory_.after_op(op.id);
  if (costs_) costs_->end_run();
  replace_written(plan);
  add_outputs(plan, outputs);
  if (running_.instance) running_.instance->saves = running_.saves();
  for (const auto& waiting : running_.take_waiting()) resolve(waiting);
  running_.end();
}

void PlanExecutor::replace_written(const OpPlan& plan) {
  for (const auto& written : running_.written()) {
    values_.overwritten(written.storage);
    const bool outside = written.from_outside();
    add_value(written.tensor, outside ? -1 : running_.op().id, 0, outside ? TensorPlacement::keep : plan.output(0),
              running_.instance, -1 - written.argument);
  }
}

void PlanExecutor::add_outputs(const OpPlan& plan, const Stack& outputs) {
  int index = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    program::for_each_tensor(outputs[i], [&](const at::Tensor& tensor) {
      const int output = index++;
      if (!values_.covers(tensor)) return;
      const auto storage = SavedStorageTable::storage_of(tensor);
      if (values_.has(storage) || running_.reads(storage)) return;
      add_value(tensor, running_.op().id, output, plan.output(i), running_.instance, output);
    });
}

// `maker` recomputes the value as its output `index`; null: the value cannot be recomputed.
SavedStoragePtr PlanExecutor::add_value(const at::Tensor& tensor, int op, int output, TensorPlacement place,
                                        const RecordedOpPtr& maker, int index) {
  const SavedStorage::Origin origin{op, output, block_};
  SavedStoragePtr value;
  if (place == TensorPlacement::recompute && maker) {
    value = std::make_shared<SavedStorage>(tensor.storage(), origin, maker);
    maker->outputs.push_back({value, index, tensor.dtype(), tensor.numel()});
  } else {
    value = std::make_shared<SavedStorage>(tensor.storage(), origin,
                                           place == TensorPlacement::recompute ? TensorPlacement::keep : place);
  }
  values_.add(SavedStorageTable::storage_of(tensor), value);
  if (costs_) costs_->made(value, tensor.storage());
  return value;
}

}  // namespace memtune::step
