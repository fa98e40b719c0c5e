#include "core/checkpoint/recompute.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/autograd/hooks.h"
#include "core/base/elapsed.h"
#include "core/base/error.h"

namespace memtune::checkpoint {
namespace {

using c10::IValue;
using program::Stack;
using value::Value;

class GeneratorScope {
 public:
  GeneratorScope(c10::Device device, const at::Tensor& state) : used_(state.defined()) {
    if (!used_) return;
    generator_ = at::globalContext().defaultGenerator(device);
    before_ = generator_.get_state();
    generator_.set_state(state);
  }
  ~GeneratorScope() {
    if (used_) generator_.set_state(before_);
  }

 private:
  bool used_;
  at::Generator generator_;
  at::Tensor before_;
};

// Collects what autograd saves while an op is run again, in the order of the forward's saves.
class Capture final : public autograd::Packer {
 public:
  explicit Capture(Instance& instance) : instance_(instance) {}

  std::unique_ptr<autograd::Ticket> pack(const at::Tensor& tensor) override {
    auto wanted = instance_.captured.find(saves++);
    if (wanted != instance_.captured.end()) wanted->second = tensor.detach();
    return std::make_unique<Nothing>();
  }
  int saves = 0;

 private:
  struct Nothing final : autograd::Ticket {
    at::Tensor unpack() override { throw Error("a recomputation has no backward of its own"); }
  };
  Instance& instance_;
};

void collect(const IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  }
}

}  // namespace

std::vector<at::Tensor> tensors_in(const Stack& values) {
  std::vector<at::Tensor> tensors;
  for (const IValue& value : values) collect(value, tensors);
  return tensors;
}

std::vector<at::Tensor> moved_statistics(const program::Op& op, const Stack& inputs) {
  std::vector<at::Tensor> statistics;
  for (int i : op.moves_statistics)
    if (inputs.at(i).isTensor()) statistics.push_back(inputs[i].toTensor());
  return statistics;
}

at::Storage Instance::make(Value& value) { return engine.make(*this, value); }

void Recompute::remember_state(const program::Op& op, Instance& instance) const {
  instance.autocast = autograd::Autocast::now(device_.type());
  if (op.random) instance.generator_state = at::globalContext().defaultGenerator(device_).get_state();
}

at::Storage Recompute::make(Instance& instance, Value& value) {
  if (at::Storage storage = passed(value)) return storage;
  run(instance, &value);
  if (at::Storage storage = passed(value)) return storage;
  if (value.state() != Value::State::held)
    throw Error("running " + instance.op->name + " again did not make its value");
  return value.on_device();
}

at::Storage Recompute::passed(const Value& value) const {
  const auto block = passed_.find(value.block());
  if (block == passed_.end()) return {};
  const auto found = block->second.find(&value);
  return found == block->second.end() ? at::Storage() : found->second;
}

at::Tensor Recompute::saved_by(Instance& instance, int save) {
  at::Tensor& captured = instance.captured[save];
  if (!captured.defined()) run(instance, nullptr);
  if (!instance.captured[save].defined())
    throw Error("running " + instance.op->name + " again did not save what it saved before");
  return instance.captured[save];
}

void Recompute::run(Instance& instance, const Value* wanted) {
  // What the block made in passing goes when the value that it was passed for is there.
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

void Recompute::rerun(Instance& instance, const Value* wanted) {
  const bool captures = !instance.captured.empty() && !passes(instance);
  Stack stack = make_stack(instance);
  Stack arguments = stack;
  Capture capture(instance);
  {
    at::AutoGradMode grad(true);
    autograd::AutocastScope autocast(device_.type(), instance.autocast);
    GeneratorScope generator(device_, instance.generator_state);
    autograd::HookScope hooks(captures ? &capture : nullptr);
    device::Stopwatch::Lap lap(timer_);
    using trace::ValueKey;
    trace::RerunScope recording(recorder_, wanted ? wanted->key() : ValueKey{instance.op->id, ValueKey::kPrivate});
    if (instance.op->vararg) stack.emplace_back(static_cast<int64_t>(stack.size()));
    const Elapsed host(host_time_);
    instance.op->run(stack);
  }
  if (captures && capture.saves != instance.saves)
    throw Error("running " + instance.op->name + " again saved " + std::to_string(capture.saves) + " tensors, not " +
                std::to_string(instance.saves) + " as before");
  ++reruns_;
  hand_out(instance, arguments, stack, wanted);
  if (passes(instance) || std::exchange(instance.done, true)) return;
  for (Argument& argument : instance.arguments)
    for (TensorInput& input : argument.tensors) input.use.end();
}

Stack Recompute::make_stack(Instance& instance) {
  Stack stack;
  for (size_t i = 0; i < instance.arguments.size(); ++i) {
    bool written = i < instance.op->writes.size() && instance.op->writes[i];
    // The forward has moved them; a rerun must not move them again.
    const auto& moved = instance.op->moves_statistics;
    bool statistics = std::find(moved.begin(), moved.end(), static_cast<int>(i)) != moved.end();
    stack.push_back(make_argument(instance.arguments[i], written || statistics));
  }
  return stack;
}

IValue Recompute::make_argument(Argument& argument, bool written) {
  if (argument.form == Argument::Form::plain) return argument.value;
  if (argument.form == Argument::Form::tensor) return make_input(argument.tensors[0], written);
  if (argument.form == Argument::Form::list) {
    c10::List<at::Tensor> list;
    for (TensorInput& input : argument.tensors) list.push_back(make_input(input, written));
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (TensorInput& input : argument.tensors) {
    at::Tensor tensor = make_input(input, written);
    list.push_back(tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt);
  }
  return list;
}

// A written input is a copy, since others may need the bytes as they are.
at::Tensor Recompute::make_input(TensorInput& input, bool written) {
  at::NoGradGuard no_grad;
  if (!input.use) return written && input.direct.defined() ? input.direct.detach().clone() : input.direct;
  at::Storage storage = input.use->bytes();
  if (written) {
    at::Tensor bytes = at::empty({static_cast<int64_t>(storage.nbytes())}, at::TensorOptions(device_).dtype(at::kByte));
    bytes.copy_(at::empty({0}, bytes.options()).set_(storage, 0, {bytes.numel()}, {1}));
    return input.geometry->view(bytes.storage());
  }
  at::Tensor tensor = input.geometry->view(storage);
  if (input.requires_grad) tensor.requires_grad_();
  return tensor;
}

// Outputs that somebody waits for keep their bytes; what an in-place op wrote is the written argument's.
void Recompute::hand_out(Instance& instance, const Stack& arguments, const Stack& results, const Value* wanted) {
  auto made = tensors_in(results);
  for (Output& output : instance.outputs) {
    auto value = output.value.lock();
    if (!value || !(value->used() || value.get() == wanted)) continue;
    at::Tensor tensor = output.index >= 0 ? made.at(output.index) : arguments.at(-1 - output.index).toTensor();
    if (tensor.dtype() != output.dtype || tensor.numel() != output.elements ||
        static_cast<int64_t>(tensor.storage().nbytes()) < value->size_bytes())
      throw Error("running " + instance.op->name + " again made another tensor than before");
    if (passes(instance) && !value->crosses())
      passed_[instance.block][value.get()] = tensor.storage();
    else if (value->state() == Value::State::dropped)
      value->hold(tensor.storage());
  }
}

}  // namespace memtune::checkpoint
