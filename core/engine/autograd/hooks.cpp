#include "core/engine/autograd/hooks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <vector>

namespace memtune::autograd {
namespace {

namespace ag = torch::autograd;

thread_local std::vector<SavedTensorPacker*> packers;  // the last one applies

class Hooks final : public ag::SavedVariableHooks {
 public:
  explicit Hooks(SavedTensorPacker& packer) : packer_(packer) {}
  void call_pack_hook(const at::Tensor& tensor) override { ticket_ = packer_.pack(tensor); }
  at::Tensor call_unpack_hook() override { return ticket_->unpack(); }

 private:
  SavedTensorPacker& packer_;
  std::unique_ptr<PackedSavedTensor> ticket_;
};

class Engine final : public ag::Engine {
 public:
  ~Engine() override { stop(); }
  std::unique_ptr<ag::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (packers.empty() || !packers.back()) return nullptr;
    return std::make_unique<Hooks>(*packers.back());
  }
  static ag::Engine& get() {
    static Engine engine;
    return engine;
  }
};

}  // namespace

void install_engine() { ag::set_default_engine_stub(&Engine::get); }

void backward(const at::Tensor& loss, bool retain_graph) {
  try {
    loss.backward({}, retain_graph);
  } catch (...) {
    const SavedTensorHooksPause no_hooks;
    at::AutoGradMode grad(true);
    at::ones({}).requires_grad_().neg().backward();  // on the CPU, so that it needs no device memory
    throw;
  }
}

SavedTensorHooksScope::SavedTensorHooksScope(SavedTensorPacker* packer) { packers.push_back(packer); }
SavedTensorHooksScope::~SavedTensorHooksScope() { packers.pop_back(); }

}  // namespace memtune::autograd
