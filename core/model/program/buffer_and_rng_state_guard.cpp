#include "core/model/program/buffer_and_rng_state_guard.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <unordered_set>

namespace memtune::program {

BufferAndRngStateGuard::BufferAndRngStateGuard(const ModelParametersAndBuffers& state, c10::Device device) {
  at::NoGradGuard no_grad;
  std::unordered_set<const void*> seen;  // includes parameters from the start: a run does not write to them
  for (const auto& [name, parameter] : state.parameters) seen.insert(parameter.unsafeGetTensorImpl());
  const auto copy = [&](const at::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second)
      tensors_.emplace_back(tensor, tensor.detach().clone());
  };
  for (const auto& [name, buffer] : state.buffers) copy(buffer);
  state.object.visit([&](const c10::IValue& value) {
    if (value.isTensor()) {
      copy(value.toTensor());
    } else if (value.isObject()) {
      auto object = value.toObject();
      if (!seen.insert(object.get()).second) return true;
      objects_.emplace_back(object, object->slots());
    } else if (value.isList()) {
      lists_.emplace_back(value.toList(), value.toList().vec());
    } else if (value.isGenericDict()) {
      dicts_.emplace_back(value.toGenericDict(), value.toGenericDict().copy());
    }
    return false;
  });
  auto add = [&](const at::Generator& generator) { generators_.emplace_back(generator, generator.get_state()); };
  add(at::globalContext().defaultGenerator(c10::kCPU));
  if (!device.is_cpu() && !device.is_meta()) add(at::globalContext().defaultGenerator(device));
}

BufferAndRngStateGuard::~BufferAndRngStateGuard() {
  try {
    restore();
  } catch (const std::exception&) {
    // the device has failed; its next user gets the error
  }
}

void BufferAndRngStateGuard::restore() {
  at::NoGradGuard no_grad;
  for (auto& [object, slots] : objects_)
    for (size_t i = 0; i < slots.size(); ++i) object->setSlot(i, std::move(slots[i]));
  for (auto& [list, elements] : lists_) {
    list.clear();
    for (auto& element : elements) list.push_back(std::move(element));
  }
  for (auto& [dict, copy] : dicts_) {
    dict.clear();
    for (const auto& entry : copy) dict.insert(entry.key(), entry.value());
  }
  for (auto& [tensor, copy] : tensors_) tensor.copy_(copy);
  for (auto& [generator, state] : generators_) generator.set_state(state);
}

}  // namespace memtune::program
