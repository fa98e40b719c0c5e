// One training step of a small module under a strategy, to test the engines. Input is TorchScript source; results are
// loss, gradients, and what the engines still hold afterwards.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/jit/api/module.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/device/torch/make_device.h"
#include "core/base/device/torch/torch_device.h"
#include "core/engine/autograd/hooks.h"
#include "core/engine/step/activation_plan_executor.h"
#include "core/engine/step/forward_op_allocation_and_flops_profiler.h"
#include "core/model/program/blocks.h"
#include "core/model/program/buffer_and_rng_state_guard.h"
#include "core/model/program/facts.h"
#include "core/model/program/interpreter.h"
#include "core/plan/rules/strategy.h"
#include "tests/support/lower.h"

namespace memtune::tests {

struct Step {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;  // by parameter; undefined if there is no gradient
  int64_t reruns = 0, out_bytes = 0, in_bytes = 0;
  int64_t leased_after = 0;  // host bytes still leased after the step
};

// The device of the tests: the emulating CPU, or the value of MEMTUNE_TEST_DEVICE ("cuda"). Kernels are deterministic
// there, because results are compared bit for bit.
inline device::Device& test_device() {
  static auto device = [] {
    const char* name = std::getenv("MEMTUNE_TEST_DEVICE");
    auto made = device::make_device(name ? name : "cpu");
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    at::globalContext().setDeterministicAlgorithms(!made->emulated(), /*warn_only=*/true);
    return made;
  }();
  return *device;
}

// Host memory of four pages with a scratch file behind it, for plans that use the disk.
inline step::HostBudgetAndScratchStore test_tiers(const plan::Plan& plan) {
  step::HostBudgetAndScratchStore tiers;
  if (!plan.places(plan::TensorPlacement::disk)) return tiers;
  tiers.host_budget_bytes = 4 * 4096;
  tiers.store = std::make_unique<disk::ScratchBlockStore>(
      disk::ScratchBlockStoreSettings{.directory = std::filesystem::temp_directory_path(), .allow_memory = true});
  return tiers;
}

// Host bytes that a finished step still holds. A write whose data is no longer needed frees its memory when it ends, at
// the start of the next step.
inline int64_t leased_at_rest(step::ActivationPlanExecutor& executor) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  do executor.begin_step();
  while (executor.tier().pool().leased_bytes() > 0 && std::chrono::steady_clock::now() < deadline);
  return executor.tier().pool().leased_bytes();
}

// A model of `blocks` modules of class Block, applied in order to an input [rows, width]. `source` is their forward
// (def forward(self, x)). Each block has random `parameters` of shape [width, width]. The loss is the mean square.
class Model {
 public:
  Model(const std::string& source, int blocks, int width = 8, std::vector<std::string> parameters = {"a", "b"},
        int rows = 4)
      : module_("Model"), width_(width) {
    at::TensorOptions options(device::torch_device(test_device()));
    at::manual_seed(7);
    std::string forward = "def forward(self, x):\n";
    for (int i = 0; i < blocks; ++i) {
      torch::jit::Module block("Block");
      block.register_attribute("training", c10::BoolType::get(), true);
      for (const auto& name : parameters)
        block.register_parameter(name, (at::randn({width, width}, options) * 0.4).requires_grad_(), false);
      block.register_parameter("mean", at::zeros({width}, options), true);
      block.register_parameter("variance", at::ones({width}, options), true);
      block.define(source);
      module_.register_module("block" + std::to_string(i), block);
      forward += "    x = self.block" + std::to_string(i) + ".forward(x)\n";
    }
    module_.define(forward + "    return (x * x).mean()\n");
    input_ = at::randn({rows, width}, options);
  }

  const torch::jit::Module& module() const { return module_; }
  at::Tensor input() const { return input_.clone(); }

  // Plain TorchScript and autograd: the expected results of every strategy.
  Step plain() {
    at::manual_seed(1);
    clear();
    Step step;
    step.loss = module_.forward({input()}).toTensor();
    step.loss.backward();
    step.loss = step.loss.detach();
    take(step);
    return step;
  }

  // Moves private tensors of any size, so that tiny tensors behave like large ones.
  Step under(const std::string& strategy) {
    program::Program program =
        tests::lower(module_, frontend::LossKind::returned, "", device::torch_device(test_device()));
    auto facts = surveyed(program);
    auto plan = plan::make_plan(plan::Strategy::parse(strategy), facts);
    plan.saved_min_bytes = 0;
    plan.transfer.min_bytes = 0;
    return under(program, facts, plan);
  }

  // The facts of the model, including measured sizes.
  plan::ProgramFacts surveyed(const program::Program& program) const {
    auto facts = program::facts(program, program::find_blocks(program, "block*"));
    const program::BufferAndRngStateGuard restore(program.state, device::torch_device(test_device()));
    step::ForwardOpAllocationAndFlopsProfiler survey(program, facts, device::torch_device(test_device()).type());
    const autograd::SavedTensorHooksScope hooks(&survey);
    program::Interpreter(program).run({input()}, &survey);
    return facts;
  }

  Step under(const program::Program& program, const plan::ProgramFacts& facts, const plan::Plan& plan) {
    return under(program, facts, plan, test_tiers(plan));
  }

  Step under(const program::Program& program, const plan::ProgramFacts& facts, const plan::Plan& plan,
             step::HostBudgetAndScratchStore tiers, device::Device& device = test_device()) {
    at::manual_seed(1);
    clear();
    Step step;
    step::ActivationPlanExecutor executor(program, facts, plan, device, std::move(tiers));
    program::Interpreter interpreter(program);
    executor.begin_step();
    at::Tensor loss;  // its graph must be destroyed before the executor, even if the backward throws
    {
      autograd::SavedTensorHooksScope hooks(&executor);
      loss = interpreter.run({input()}, &executor).toTensor();
    }
    executor.end_forward();
    autograd::backward(loss);
    step.loss = std::exchange(loss, {}).detach();
    take(step);
    step.reruns = executor.reruns();
    step.out_bytes = executor.offload().counters().out_bytes;
    step.in_bytes = executor.offload().counters().in_bytes;
    step.leased_after = leased_at_rest(executor);
    return step;
  }

  void clear() {
    for (at::Tensor parameter : module_.parameters()) parameter.mutable_grad().reset();
  }

 private:
  void take(Step& step) {
    for (const at::Tensor& parameter : module_.parameters())
      step.gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  }

  torch::jit::Module module_;
  at::Tensor input_;
  int width_;
};

inline bool same(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || at::equal(a, b);
}

inline bool same(const Step& a, const Step& b) {
  if (!same(a.loss, b.loss) || a.gradients.size() != b.gradients.size()) return false;
  for (size_t i = 0; i < a.gradients.size(); ++i)
    if (!same(a.gradients[i], b.gradients[i])) return false;
  return true;
}

// Every strategy of memtune, with the parameters that change the engines' behaviour.
inline std::vector<std::string> all_strategies() {
  return {"none",
          "checkpoint:full",
          "checkpoint:full,inputs=host",
          "checkpoint:full,segment=2",
          "checkpoint:full,segment=8,inputs=host",
          "checkpoint:every=2",
          "checkpoint:every=2,inputs=host",
          "checkpoint:op",
          "checkpoint:op,inputs=host",
          "checkpoint:op,save=matmul-all",
          "offload:sync",
          "offload:sync,head=move,memory=pageable",
          "offload:stream",
          "offload:stream,stash=1KiB",
          "offload:stream,stash=0B,prefetch=0B",
          "offload:stream,head=move,prefetch=1KiB",
          "checkpoint:cheap",
          "checkpoint:cheap,inputs=host",
          "checkpoint:cheap+offload:stream,fraction=0.4",
          "checkpoint:full,blocks=0+offload:stream,blocks=1-",
          "checkpoint:full,inputs=disk",
          "offload:sync,tier=disk,fraction=0.5",
          "offload:stream,tier=disk",
          "offload:group",
          "offload:group,in_flight=2,prefetch=2,keep_last=0,tier=disk",
          "checkpoint:hf-offload",
          "checkpoint:axolotl-hidden",
          "checkpoint:deepspeed-cpu",
          "checkpoint:titan-full",
          "checkpoint:titan-selective",
          "checkpoint:megatron-uniform,layers=2",
          "checkpoint:megatron-block",
          "offload:torchtune",
          "checkpoint:full+offload:torchtune",
          "offload:trl",
          "checkpoint:full+offload:trl",
          "checkpoint:titan-full+offload:trl",
          "offload:swift",
          "checkpoint:full+offload:swift"};
}

}  // namespace memtune::tests
