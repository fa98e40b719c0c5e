#include "core/engine/step/executor.h"

#include <ATen/autocast_mode.h>

#include "core/base/elapsed.h"
#include "core/base/device/torch/torch_device.h"
#include "core/model/program/tensors.h"

namespace memtune::step {

using autograd::SavedValue;
using autograd::Use;
using autograd::ValuePtr;
using checkpoint::InstancePtr;
using plan::Place;
using program::Stack;

namespace {

constexpr int64_t kCudaSlab = 256 << 20, kCpuSlab = 16 << 20;

std::vector<at::Tensor> parameters_of(const program::Program& program) {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : program.state.parameters) parameters.push_back(parameter);
  return parameters;
}

}  // namespace

Executor::Executor(const program::Program& program, const plan::ProgramFacts& facts, const plan::Plan& plan,
                   device::Device& device, Tiers tiers)
    : facts_(facts),
      plan_(plan),
      device_(device::torch_device(device)),
      ops_(plan_ops(facts, plan)),
      memory_(device, ops_.size()),
      tier_(device, device.emulated() ? kCpuSlab : kCudaSlab, tiers.host_budget_bytes, std::move(tiers.store),
            plan.transfer.pinned, plan.transfer.habits.power_of_two),
      offload_(device, plan.transfer, tier_),
      recompute_(device, plan.nested, plan.transfer.habits.whole_blocks),
      recorder_(recompute_, device_),
      values_(device_, parameters_of(program)),
      copies_(plan.transfer, device_, parameters_of(program)) {}

void Executor::begin_step() {
  const Elapsed host(host_time_);
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
void Executor::end_forward() {
  const Elapsed host(host_time_);
  values_.end_forward();
  running_.end();
  offload_.end_forward();
  memory_.end_forward();
  if (costs_) costs_->end_forward();
}

// A step with a small stash shows the peak that the plan needs, and the memory of each op.
void Executor::begin_learning() {
  memory_.begin_learning();
  offload_.begin_learning();
}

void Executor::end_learning() {
  memory_.end_learning();
  offload_.end_learning(memory_.forward_peak());
}

void Executor::turn_on_timers() {
  recompute_.timer().turn_on();
  offload_.waits().turn_on();
}

void Executor::set_recorder(trace::Recorder* recorder) {
  trace_ = recorder;
  offload_.set_recorder(recorder);
  recompute_.set_recorder(recorder);
}

void Executor::enter(const OpPlan& op) {
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

void Executor::before(const program::Op& op, const Stack& inputs) {
  const Elapsed host(host_time_);
  const OpPlan& plan = ops_[op.id];
  enter(plan);
  offload_.make_room(memory_.bytes(op.id));
  running_.begin(op, inputs, values_, at::autocast::is_autocast_enabled(device_.type()));
  if (plan.recomputes && !running_.writes_outside()) record(op, inputs);
  for (const auto& written : running_.written())
    if (written.value) written.value->before_overwrite();
  for (const int moved : op.moves_statistics)
    if (inputs.at(moved).isTensor()) overwrite(inputs[moved].toTensor());
  memory_.before_op();
  if (costs_) costs_->begin_run(running_, values_);
}

// Later reads of the storage see other bytes.
void Executor::overwrite(const at::Tensor& tensor) {
  if (!values_.covers(tensor)) return;
  const auto storage = ValueTable::storage_of(tensor);
  if (const ValuePtr value = values_.find(storage)) value->before_overwrite();
  values_.overwritten(storage);
}

void Executor::record(const program::Op& op, const Stack& inputs) {
  running_.instance =
      recorder_.record(op, inputs, block_, [this](const at::Tensor& tensor) { return use_for_rerun(tensor); });
  recompute_.recorded(running_.instance);
}

Use Executor::use_for_rerun(const at::Tensor& tensor) {
  if (!values_.covers(tensor)) return {};
  return use(values_.find_or_add(tensor), Use::By::rerun);
}

// Adds a consumer that needs the value after the forward. The first consumer keeps or offloads the value.
Use Executor::use(ValuePtr value, Use::By by) {
  Use use(std::move(value), by);
  use->wanted_in(block_);
  if (use->state() != SavedValue::State::passing) return use;
  if (use->place() == Place::keep) {
    use->hold(use->alive());
    return use;
  }
  if (by == Use::By::rerun) {  // counts as two saves, like a checkpoint's: its input and an empty tensor
    offload_.count_save();
    offload_.count_save();
  }
  memory_.before_leaving();
  offload_.send(*use, running_.op().id);
  memory_.after_leaving();
  return use;
}

void Executor::after(const program::Op& op, const Stack& outputs) {
  const Elapsed host(host_time_);
  const OpPlan& plan = ops_[op.id];
  memory_.after_op(op.id);
  if (costs_) costs_->end_run();
  replace_written(plan);
  add_outputs(plan, outputs);
  if (running_.instance) running_.instance->saves = running_.saves();
  for (const auto& waiting : running_.take_waiting()) resolve(waiting);
  running_.end();
}

void Executor::replace_written(const OpPlan& plan) {
  for (const auto& written : running_.written()) {
    values_.overwritten(written.storage);
    const bool outside = written.from_outside();
    add_value(written.tensor, outside ? -1 : running_.op().id, 0, outside ? Place::keep : plan.output(0),
              running_.instance, -1 - written.argument);
  }
}

void Executor::add_outputs(const OpPlan& plan, const Stack& outputs) {
  int index = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    program::for_each_tensor(outputs[i], [&](const at::Tensor& tensor) {
      const int output = index++;
      if (!values_.covers(tensor)) return;
      const auto storage = ValueTable::storage_of(tensor);
      if (values_.has(storage) || running_.reads(storage)) return;
      add_value(tensor, running_.op().id, output, plan.output(i), running_.instance, output);
    });
}

// `maker` recomputes the value as its output `index`; null: the value cannot be recomputed.
ValuePtr Executor::add_value(const at::Tensor& tensor, int op, int output, Place place, const InstancePtr& maker,
                             int index) {
  const SavedValue::Origin origin{op, output, block_};
  ValuePtr value;
  if (place == Place::recompute && maker) {
    value = std::make_shared<SavedValue>(tensor.storage(), origin, maker);
    maker->outputs.push_back({value, index, tensor.dtype(), tensor.numel()});
  } else {
    value = std::make_shared<SavedValue>(tensor.storage(), origin, place == Place::recompute ? Place::keep : place);
  }
  values_.add(ValueTable::storage_of(tensor), value);
  if (costs_) costs_->made(value, tensor.storage());
  return value;
}

}  // namespace memtune::step
