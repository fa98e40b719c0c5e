#include "core/engine/checkpoint/recompute_engine.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/scoped_timer.h"
#include "core/engine/autograd/hooks.h"
#include "core/model/program/tensors.h"

namespace memtune::checkpoint {
namespace {

using autograd::SavedStorage;
using c10::IValue;
using program::Stack;

class GeneratorScope {
 public:
  GeneratorScope(const at::Generator& generator, const at::Tensor& state) : generator_(generator) {
    if (!generator_.defined()) return;
    before_ = generator_.get_state();
    generator_.set_state(state);
  }
  ~GeneratorScope() {
    if (generator_.defined()) generator_.set_state(before_);
  }

 private:
  at::Generator generator_;
  at::Tensor before_;
};

// Captures what autograd saves while an op is recomputed. The order is that of the forward.
class Capture final : public autograd::SavedTensorPacker {
 public:
  explicit Capture(RecordedOp& instance) : instance_(instance) {}

  std::unique_ptr<autograd::PackedSavedTensor> pack(const at::Tensor& tensor) override {
    auto wanted = instance_.captured.find(saves++);
    if (wanted != instance_.captured.end()) wanted->second = tensor.detach();
    return std::make_unique<Nothing>();
  }
  int saves = 0;

 private:
  struct Nothing final : autograd::PackedSavedTensor {
    at::Tensor unpack() override { throw Error("a recomputation has no backward of its own"); }
  };
  RecordedOp& instance_;
};

}  // namespace

at::Storage RecordedOp::make(SavedStorage& value) { return engine.make(*this, value); }

at::Tensor RecomputedPrivateSaveHandle::tensor() const { return instance_->engine.saved_by(*instance_, save_); }

at::Storage RecomputeEngine::make(RecordedOp& instance, SavedStorage& value) {
  if (at::Storage storage = passed(value)) return storage;
  run(instance, &value);
  if (at::Storage storage = passed(value)) return storage;
  if (value.state() != SavedStorage::State::held)
    throw Error("running " + instance.op->name + " again did not produce its activation");
  return value.on_device();
}

at::Storage RecomputeEngine::passed(const SavedStorage& value) const {
  const auto block = passed_.find(value.block());
  if (block == passed_.end()) return {};
  const auto found = block->second.find(&value);
  return found == block->second.end() ? at::Storage() : found->second;
}

at::Tensor RecomputeEngine::saved_by(RecordedOp& instance, int save) {
  at::Tensor& captured = instance.captured[save];
  if (!captured.defined()) run(instance, nullptr);
  if (!instance.captured[save].defined())
    throw Error("running " + instance.op->name + " again did not save what it saved before");
  return instance.captured[save];
}

// An op that an earlier one of the block requested is already done and is skipped.
void RecomputeEngine::rerun_block(int block) {
  auto instances = of_block_.extract(block);
  if (instances.empty()) return;
  for (RecordedOpPtr& instance : instances.mapped()) {
    if (!instance->done) rerun(*instance, nullptr);
    instance.reset();
  }
}

void RecomputeEngine::run(RecordedOp& instance, const SavedStorage* wanted) {
  if (whole_blocks_) {
    rerun_block(instance.block);
    if (instance.done) return;
  }
  // The block's temporary values are released once the requested value exists.
  const bool enters = passes(instance) && passed_.try_emplace(instance.block).second;
  struct Leave {
    ~Leave() {
      if (enters) passed.erase(block);
    }
    decltype(passed_)& passed;
    int block;
    bool enters;
  } leave{passed_, instance.block, enters};
  rerun(instance, wanted);
}

void RecomputeEngine::rerun(RecordedOp& instance, const SavedStorage* wanted) {
  const bool captures = !instance.captured.empty() && !passes(instance);
  Stack stack = make_stack(instance);
  if (parameters_) parameters_->before_rerun(stack);
  const Stack arguments = instance.writes() ? stack : Stack();
  Capture capture(instance);
  {
    at::AutoGradMode grad(instance.grad_mode);
    std::optional<ops::AutocastScope> autocast;
    if (instance.autocast.enabled || ops::AutocastState::now(device_.type()).enabled)
      autocast.emplace(device_.type(), instance.autocast);
    GeneratorScope generator(instance.generator, instance.generator_state);
    autograd::SavedTensorHooksScope hooks(captures ? &capture : nullptr);
    device::ComputeStreamScopeTimeAccumulator::Lap lap(timer_);
    using trace::ActivationOpOutputKey;
    trace::RecomputeRecordScope recording(
        recorder_, wanted ? wanted->key() : ActivationOpOutputKey{instance.op->id, kPrivateSave});
    if (instance.op->vararg) stack.emplace_back(static_cast<int64_t>(stack.size()));
    const ScopedTimer host(host_time_);
    instance.op->run(stack);
  }
  if (captures && capture.saves != instance.saves)
    throw Error("running " + instance.op->name + " again saved " + std::to_string(capture.saves) + " tensors, not " +
                std::to_string(instance.saves) + " as before");
  ++reruns_;
  hold_outputs(instance, arguments, stack, wanted);
  if (passes(instance) || std::exchange(instance.done, true)) return;
  for (RecordedOpInput& input : instance.inputs) input.use.end();
}

Stack RecomputeEngine::make_stack(const RecordedOp& instance) {
  const auto& moved = instance.op->updates_statistics;
  const auto& writes = instance.op->writes;
  const RecordedOpInput* next = instance.inputs.begin();
  Stack stack;
  stack.reserve(instance.arguments.size() + 1);
  for (size_t i = 0; i < instance.arguments.size(); ++i) {
    const RecordedOpArgument& argument = instance.arguments[i];
    const bool written = i < writes.size() && writes[i];
    // The forward has already updated the statistics; a copy keeps recomputation from updating them again.
    const bool statistics = std::find(moved.begin(), moved.end(), static_cast<int>(i)) != moved.end();
    stack.push_back(make_argument(argument, next, written || statistics));
    next += argument.tensors;
  }
  return stack;
}

IValue RecomputeEngine::make_argument(const RecordedOpArgument& argument, const RecordedOpInput* inputs, bool written) {
  using Form = RecordedOpArgument::Form;
  if (argument.form == Form::plain) return argument.value;
  if (argument.form == Form::tensor) return make_input(*inputs, written);
  c10::List<at::Tensor> list;
  c10::List<std::optional<at::Tensor>> optional_list;
  for (const RecordedOpInput* input = inputs; input != inputs + argument.tensors; ++input) {
    at::Tensor tensor = make_input(*input, written);
    if (argument.form == Form::list)
      list.push_back(std::move(tensor));
    else
      optional_list.push_back(tensor.defined() ? std::optional<at::Tensor>(std::move(tensor)) : std::nullopt);
  }
  return argument.form == Form::list ? IValue(std::move(list)) : IValue(std::move(optional_list));
}

// A written input is copied, because other consumers may need the original bytes.
at::Tensor RecomputeEngine::make_input(const RecordedOpInput& input, bool written) {
  at::NoGradGuard no_grad;
  if (!input.use) return written && input.direct.defined() ? input.direct.detach().clone() : input.direct;
  at::Storage storage = input.use->bytes();
  if (written) {
    at::Tensor bytes = at::empty({static_cast<int64_t>(storage.nbytes())}, at::TensorOptions(device_).dtype(at::kByte));
    bytes.copy_(at::empty({0}, bytes.options()).set_(storage, 0, {bytes.numel()}, {1}));
    return input.geometry.view(bytes.storage());
  }
  at::Tensor tensor = input.geometry.view(storage);
  if (input.requires_grad) tensor.requires_grad_();
  return tensor;
}

// Stores outputs that have a consumer. The output of an in-place op is its written argument.
void RecomputeEngine::hold_outputs(RecordedOp& instance, const Stack& arguments, const Stack& results,
                                   const SavedStorage* wanted) {
  const auto made = program::tensors_in(results);
  for (RecordedOpOutputToRecompute& output : instance.outputs) {
    auto value = output.value.lock();
    if (!value || !(value->used() || value.get() == wanted)) continue;
    at::Tensor tensor = output.index >= 0 ? made.at(output.index) : arguments.at(-1 - output.index).toTensor();
    if (tensor.dtype() != output.dtype || tensor.numel() != output.elements ||
        static_cast<int64_t>(tensor.storage().nbytes()) < value->size_bytes())
      throw Error("running " + instance.op->name + " again returned a different tensor");
    recomputed_bytes_ += value->size_bytes();
    if (passes(instance) && !value->crosses())
      passed_[instance.block][value.get()] = tensor.storage();
    else if (value->state() == SavedStorage::State::dropped)
      value->hold(tensor.storage());
  }
}

}  // namespace memtune::checkpoint
