#include "core/model/frontend/torchscript/module_file.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/import.h>

#include <unordered_set>

#include "core/base/open_file.h"
#include "core/model/frontend/dtype.h"
#include "core/model/frontend/torchscript/unsafe_operator_blocker.h"
#include "core/model/program/first_line.h"

namespace memtune::frontend {
namespace {

using torch::jit::Module;

// On the CPU, or on the meta device, which set_data() cannot move to.
Module load_file(const std::string& path, c10::Device device) {
  require_file("--model", path);
  try {
    return torch::jit::load(path, device.is_meta() ? device : c10::Device(c10::kCPU));
  } catch (const std::exception& error) {
    if (const std::string op = UnsafeOperatorBlocker::named_in(error.what()); !op.empty())
      model::refuse_model(
          path, "it uses " + op +
                    ", which reaches beyond a training step (files, processes, the network): if you trust its author, "
                    "--trust-model runs it");
    const std::string why = program::first_line(error);
    const bool unknown_op = std::string(error.what()).find("Unknown builtin op") != std::string::npos;
    model::refuse_model(path, "LibTorch cannot load it: " + why +
                                  (unknown_op ? "; operators of other libraries come with --library FILE.so" : ""));
  }
}

void check_is_trainable(const std::string& path, const Module& module) {
  if (!module.find_method("forward")) model::refuse_model(path, "it has no forward method");
  if (module.parameters().size() == 0)
    model::refuse_model(path, "it has no parameters; if it was frozen (torch.jit.freeze), save it without that");
  for (const at::Tensor& parameter : module.parameters())
    if ((parameter.is_floating_point() || parameter.is_complex()) && parameter.requires_grad()) return;
  model::refuse_model(path, "none of its parameters requires grad, so there is nothing to train");
}

// Moves every tensor that the module holds in any way, once. Changes it in place, so that tied ones stay tied.
void move_tensors(Module& module, c10::Device device, std::optional<at::ScalarType> dtype) {
  std::unordered_set<const void*> seen;
  c10::IValue(module._ivalue()).visit([&](const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined() && seen.insert(value.toTensor().unsafeGetTensorImpl()).second) {
      const at::Tensor& tensor = value.toTensor();
      bool cast = dtype && tensor.is_floating_point();
      at::ScalarType wanted = cast ? *dtype : tensor.scalar_type();
      if (tensor.device() != device || tensor.scalar_type() != wanted)
        tensor.set_data(tensor.detach().to(device, wanted));
    }
    return value.isObject() && !seen.insert(value.toObject().get()).second;
  });
}

}  // namespace

Module load_module(const ModelSourceAndLoweringOptions& source) {
  Module module = load_file(source.model.path, source.device);
  check_is_trainable(source.model.path, module);
  std::optional<at::ScalarType> type;
  if (!source.dtype.empty()) type = weight_type(source.dtype);
  move_tensors(module, source.device, type);
  return module;
}

// Tracing keeps a module's tensors, submodules and forward (forward1 for its second call). Scripting also keeps
// constants, numbers and other methods, and gives a module list a __len__.
bool was_traced(const Module& module) {
  for (const Module& part : module.modules()) {
    auto type = part.type();
    if (type->numConstants() > 0) return false;
    for (auto* method : type->methods())
      if (!method->name().starts_with("forward")) return false;
    for (const auto& attribute : type->getAttributes()) {
      bool kept = attribute.getName() == "training" || attribute.getName() == "_is_full_backward_hook";
      if (!kept && !attribute.getType()->is_module() && attribute.getType()->kind() != c10::TypeKind::TensorType)
        return false;
    }
  }
  return true;
}

std::string note_on_evaluation(const Module& module) {
  size_t all = 0, evaluating = 0;
  for (const Module& part : module.modules()) {
    ++all;
    evaluating += !part.is_training();
  }
  if (evaluating == 0) return "";
  const std::string count =
      evaluating == all ? "the model was" : std::to_string(evaluating) + " of " + std::to_string(all) + " modules were";
  return count +
         " saved in evaluation mode and stays so: no dropout, batch norm with its running statistics; save it "
         "after model.train() to train all of it";
}

}  // namespace memtune::frontend
