#include "core/step/executor.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <map>

#include "core/base/elapsed.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/plan_check.h"
#include "core/device/torch/torch_device.h"
#include "core/step/saved_tensor.h"

namespace memtune::step {

using c10::IValue;
using checkpoint::Argument;
using checkpoint::Instance;
using checkpoint::InstancePtr;
using checkpoint::TensorInput;
using config::Place;
using program::Stack;
using value::Use;
using value::Value;
using value::ValuePtr;

namespace {

const c10::StorageImpl* storage_of_tensor(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

constexpr int64_t kCudaSlab = 256 << 20, kCpuSlab = 16 << 20;

}  // namespace

Executor::Executor(const program::Program& program, const config::ProgramFacts& facts, const config::Plan& plan,
                   device::Device& device, Tiers tiers)
    : program_(program),
      facts_(facts),
      plan_(plan),
      device_(device),
      placements_(program.ops),
      transients_(program.ops, 0),
      tier_(device, device.emulated() ? kCpuSlab : kCudaSlab, tiers.host_budget_bytes, std::move(tiers.store),
            plan.transfer.pinned),
      offload_(device, plan.transfer, tier_),
      recompute_(device, plan.nested) {
  for (const auto& placement : plan.placements) {
    config::check_placement(placement, facts);
    placements_[placement.op] = &placement;
  }
  for (const auto& [name, parameter] : program.state.parameters) parameters_.insert(storage_of_tensor(parameter));
}

Executor::~Executor() = default;

void Executor::begin_step() {
  const Elapsed host(host_time_);
  values_.clear();
  all_.clear();
  head_begun_ = false;
  block_ = -1;
  op_ = nullptr;
  instance_.reset();
  recompute_.timer().clear();
  offload_.begin_step();
}

// From here on only what autograd saved keeps values, and what they are made from, alive.
void Executor::end_forward() {
  const Elapsed host(host_time_);
  values_.clear();
  instance_.reset();
  op_ = nullptr;
  offload_.end_forward();
  if (learning_) forward_peak_ = std::max(forward_peak_, device_.memory().peak_allocated);
}

bool Executor::recomputes(const program::Op& op) const {
  const auto* place = placement(op.id);
  if (!place) return false;
  return place->saved == Place::recompute ||
         std::find(place->outputs.begin(), place->outputs.end(), Place::recompute) != place->outputs.end();
}

void Executor::turn_on_timers() {
  recompute_.timer().turn_on();
  offload_.waits().turn_on();
}

bool Executor::is_ours(const at::Tensor& tensor) const {
  return tensor.defined() && autograd::is_plain(tensor) && tensor.device() == device::torch_device(device_) &&
         !parameters_.count(storage_of_tensor(tensor));
}

ValuePtr Executor::find(const at::Tensor& tensor) const {
  auto found = values_.find(storage_of_tensor(tensor));
  return found == values_.end() ? nullptr : found->second;
}

ValuePtr Executor::find_or_add(const at::Tensor& tensor) {
  ValuePtr& value = values_[storage_of_tensor(tensor)];
  if (!value) value = std::make_shared<Value>(tensor.storage(), Value::Origin{}, Place::keep);  // from outside: stays
  return value;
}

void Executor::before(const program::Op& op, const Stack& inputs) {
  const Elapsed host(host_time_);
  op_ = &op;
  saves_ = 0;
  pending_.clear();
  written_.clear();
  inputs_.clear();
  op_inputs_.clear();
  if (const int block = facts_.ops[op.id].block; block != block_) {
    offload_.end_block();
    block_ = block;
  }
  if (!head_begun_ && facts_.ops[op.id].after_blocks) {
    offload_.begin_head();
    head_begun_ = true;
  }
  offload_.make_room(transients_[op.id]);
  for (const at::Tensor& tensor : checkpoint::tensors_in(inputs))
    if (is_ours(tensor)) inputs_.push_back(storage_of_tensor(tensor));
  autocast_ = at::autocast::is_autocast_enabled(device::torch_device(device_).type());
  if (recomputes(op)) op_inputs_ = checkpoint::tensors_in(inputs);
  note_written(op, inputs);
  bool outside =
      std::any_of(written_.begin(), written_.end(), [](const Written& w) { return !w.old || w.old->key().op < 0; });
  instance_ = recomputes(op) && !outside ? record(op, inputs) : nullptr;
  for (const Written& written : written_)
    if (written.old) written.old->before_overwrite();
  for (const at::Tensor& moved : checkpoint::moved_statistics(op, inputs)) replace_moved(moved);
  if (learning_) start_learning_op();
}

// A step whose stash is small shows what the plan needs at most, and what each op needs while it runs.
void Executor::begin_learning() {
  learning_ = true;
  forward_peak_ = 0;
  offload_.begin_learning();
}

void Executor::end_learning() {
  learning_ = false;
  offload_.end_learning(forward_peak_);
}

void Executor::start_learning_op() {
  const device::MemoryUse memory = device_.memory();
  forward_peak_ = std::max(forward_peak_, memory.peak_allocated);
  allocated_before_op_ = memory.allocated;
  device_.reset_peak();
}

void Executor::end_learning_op(const program::Op& op) {
  const int64_t transient = device_.memory().peak_allocated - allocated_before_op_;
  transients_[op.id] = std::max(transients_[op.id], transient);
}

void Executor::note_written(const program::Op& op, const Stack& inputs) {
  for (size_t i = 0; i < op.writes.size() && i < inputs.size(); ++i) {
    if (!op.writes[i] || !inputs[i].isTensor() || !is_ours(inputs[i].toTensor())) continue;
    const at::Tensor& tensor = inputs[i].toTensor();
    written_.push_back({storage_of_tensor(tensor), static_cast<int>(i), tensor.detach(),
                        tensor.unsafeGetTensorImpl()->version_counter().current_version(), find(tensor)});
  }
}

// Whoever reads the storage from now on reads other bytes.
void Executor::replace_moved(const at::Tensor& moved) {
  ValuePtr value = is_ours(moved) ? find(moved) : nullptr;
  if (!value) return;
  value->before_overwrite();
  value->overwritten();
  values_.erase(storage_of_tensor(moved));
}

InstancePtr Executor::record(const program::Op& op, const Stack& inputs) {
  auto instance = std::make_shared<Instance>(recompute_);
  instance->op = &op;
  instance->block = block_;
  recompute_.remember_state(op, *instance);
  for (const IValue& value : inputs) {
    Argument argument;
    if (value.isTensor()) {
      argument.form = Argument::Form::tensor;
      argument.tensors.push_back(record_input(value.toTensor()));
    } else if (value.isTensorList()) {
      argument.form = Argument::Form::list;
      for (const at::Tensor& tensor : value.toTensorVector()) argument.tensors.push_back(record_input(tensor));
    } else if (value.isList() && value.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors())) {
      argument.form = Argument::Form::optional_list;
      for (const IValue& element : value.toListRef())
        argument.tensors.push_back(record_input(element.isNone() ? at::Tensor() : element.toTensor()));
    } else {
      argument.value = value;
    }
    instance->arguments.push_back(std::move(argument));
  }
  return instance;
}

TensorInput Executor::record_input(const at::Tensor& tensor) {
  TensorInput input;
  if (!tensor.defined()) return input;
  input.requires_grad = tensor.requires_grad();
  if (!is_ours(tensor)) {
    input.direct = tensor.is_leaf() ? tensor : tensor.detach().requires_grad_(input.requires_grad);
    return input;
  }
  input.geometry.emplace(tensor);
  input.use = use(find_or_add(tensor), Use::By::rerun);
  return input;
}

// The value's bytes will be wanted after the forward is done with them.
Use Executor::use(ValuePtr value, Use::By by) {
  Use use(std::move(value), by);
  use->wanted_in(block_);
  if (use->state() != Value::State::passing) return use;
  if (use->place() == Place::keep)
    use->hold(use->alive());
  else
    offload_.send(*use);
  return use;
}

void Executor::after(const program::Op& op, const Stack& outputs) {
  const Elapsed host(host_time_);
  if (learning_) end_learning_op(op);
  replace_written(op);
  add_outputs(op, outputs);
  if (instance_) instance_->saves = saves_;
  auto pending = std::move(pending_);
  pending_.clear();
  for (SavedTensor* saved : pending) resolve(*saved);
  written_.clear();
  op_inputs_.clear();
  instance_.reset();
  op_ = nullptr;
}

void Executor::replace_written(const program::Op& op) {
  for (Written& written : written_) {
    values_.erase(written.storage);
    if (written.old) written.old->overwritten();
    bool from_outside = !written.old || written.old->key().op < 0;
    const auto* place = placement(op.id);
    Place wanted = place && !place->outputs.empty() ? place->outputs[0] : Place::keep;
    if (from_outside) wanted = Place::keep;
    add_value(written.tensor, {from_outside ? -1 : op.id, 0, block_}, wanted, instance_, -1 - written.argument);
  }
}

void Executor::add_outputs(const program::Op& op, const Stack& outputs) {
  const auto* place = placement(op.id);
  int index = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Place wanted = place && i < place->outputs.size() ? place->outputs[i] : Place::keep;
    Stack one = {outputs[i]};
    for (const at::Tensor& tensor : checkpoint::tensors_in(one)) {
      bool known = !is_ours(tensor) || find(tensor) ||
                   std::find(inputs_.begin(), inputs_.end(), storage_of_tensor(tensor)) != inputs_.end();
      if (!known) add_value(tensor, {op.id, index, block_}, wanted, instance_, index);
      ++index;
    }
  }
}

// `maker` can make the value again, as the result that `index` counts; null: it cannot be.
ValuePtr Executor::add_value(const at::Tensor& tensor, const Value::Origin& origin, Place place,
                             const InstancePtr& maker, int index) {
  ValuePtr value;
  if (place == Place::recompute && maker) {
    value = std::make_shared<Value>(tensor.storage(), origin, maker);
    maker->outputs.push_back({value, index, tensor.dtype(), tensor.numel()});
  } else {
    value = std::make_shared<Value>(tensor.storage(), origin, place == Place::recompute ? Place::keep : place);
  }
  values_[storage_of_tensor(tensor)] = value;
  all_.push_back(value);
  return value;
}

// What the op saved for its own backward alone.
ValuePtr Executor::add_private(const at::Tensor& tensor, Place place, const InstancePtr& maker) {
  return add_value(tensor, {op_->id, trace::ValueKey::kPrivate, block_}, place, maker, 0);
}

// A copy that autocast made of one of the op's inputs: casting that input again costs less than running the op.
InstancePtr Executor::record_cast(const SavedTensor& saved) {
  static const program::Op cast = [] {
    program::Op op;
    op.name = "aten::to";
    op.run = [](Stack& stack) {
      const at::ScalarType dtype = stack.at(1).toScalarType();
      at::Tensor tensor = stack.at(0).toTensor().to(dtype);
      stack.clear();
      stack.emplace_back(std::move(tensor));
    };
    return op;
  }();
  auto instance = std::make_shared<Instance>(recompute_);
  instance->op = &cast;
  instance->block = block_;
  Argument source, dtype;
  source.form = Argument::Form::tensor;
  source.tensors.push_back(record_input(op_inputs_.at(saved.cast_source())));
  dtype.value = saved.tensor().scalar_type();
  instance->arguments.push_back(std::move(source));
  instance->arguments.push_back(std::move(dtype));
  return instance;
}

std::unique_ptr<autograd::Ticket> Executor::pack(const at::Tensor& tensor) {
  const Elapsed host(host_time_);
  auto saved = std::make_unique<SavedTensor>(*this, tensor, saves_++);
  if (!op_ || !is_ours(tensor)) return saved;
  auto storage = storage_of_tensor(tensor);
  bool written = std::any_of(written_.begin(), written_.end(), [&](const Written& w) { return w.storage == storage; });
  ValuePtr value = find(tensor);
  if (value && !written)
    saved->become(use(std::move(value), Use::By::backward));
  else if (written || std::find(inputs_.begin(), inputs_.end(), storage) == inputs_.end())
    pending_.push_back(saved.get());
  return saved;
}

// The op has returned: what it saved is now an output, a written argument, or its own private value.
void Executor::resolve(SavedTensor& saved) {
  const at::Tensor& tensor = saved.tensor();
  for (const Written& written : written_)
    if (written.storage == storage_of_tensor(tensor) && saved.version() == written.version)
      return;  // what the op has overwritten itself: unpack refuses it
  if (ValuePtr value = find(tensor)) return saved.become(use(std::move(value), Use::By::backward));
  const auto* place = placement(op_->id);
  auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  if (!place || place->saved == Place::keep || bytes < plan_.saved_min_bytes || saved.cast_parameter()) return;
  const auto become_private = [&](Place wanted, const InstancePtr& maker) {
    saved.become(use(add_private(tensor, wanted, maker), Use::By::backward));
  };
  if (place->saved != Place::recompute) return become_private(place->saved, nullptr);
  if (!written_.empty()) return;
  if (saved.cast_source() >= 0) return become_private(Place::recompute, record_cast(saved));
  if (instance_) saved.become(instance_);
}

// `block`: where backward is.
at::Storage Executor::bytes_of(Value& value, int block) {
  offload_.begin_unpack();
  recompute_.enter_block(block);
  at::Storage bytes = value.bytes();
  prefetch(value.key().op);
  return bytes;
}

at::Tensor Executor::saved_by(Instance& instance, int save, int block) {
  offload_.begin_unpack();
  recompute_.enter_block(block);
  at::Tensor tensor = recompute_.saved_by(instance, save);
  prefetch(instance.op->id);
  return tensor;
}

// While the head's and the loss's backward run, memory is needed most: only what was learned lets copies come back
// then.
void Executor::prefetch(int op) {
  if (offload_.learned() || op < 0 || !facts_.ops[op].after_blocks) offload_.prefetch();
}

void Executor::set_recorder(trace::Recorder* recorder) {
  recorder_ = recorder;
  offload_.set_recorder(recorder);
  recompute_.set_recorder(recorder);
}

void Executor::visit_held(const std::function<void(const Value&, int64_t bytes)>& visit) const {
  std::unordered_set<Impl> counted;
  for (const auto& weak : all_) {
    auto value = weak.lock();
    if (!value) continue;
    at::Storage storage = value->on_device();
    if (!storage || !counted.insert(storage.unsafeGetStorageImpl()).second) continue;
    if (value->key().op >= 0) visit(*value, static_cast<int64_t>(storage.nbytes()));  // others are not the step's
  }
}

std::vector<Executor::Owner> Executor::largest_owners(size_t most) const {
  std::map<std::string, int64_t> bytes;
  visit_held([&](const Value& value, int64_t held) {
    const auto& fact = facts_.ops[value.key().op];
    bytes[without_numbers(fact.region) + "/" + fact.name] += held;
  });
  std::vector<Owner> owners;
  for (auto& [name, count] : bytes) owners.push_back({name, count});
  std::sort(owners.begin(), owners.end(), [](const Owner& a, const Owner& b) { return a.bytes > b.bytes; });
  if (owners.size() > most) owners.resize(most);
  return owners;
}

}  // namespace memtune::step
