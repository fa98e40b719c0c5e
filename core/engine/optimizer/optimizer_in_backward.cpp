#include "core/engine/optimizer/optimizer_in_backward.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace memtune::optimizer {
namespace {

struct Update final : torch::autograd::PostAccumulateGradHook {
  Update(Optimizer& optimizer, size_t parameter) : optimizer(optimizer), parameter(parameter) {}
  void operator()(const at::Tensor& /*leaf*/) override { optimizer.step_some({parameter}); }

  Optimizer& optimizer;
  size_t parameter;
};

}  // namespace

OptimizerInBackward::OptimizerInBackward(Optimizer& optimizer) : optimizer_(optimizer) {
  for (size_t i = 0; i < optimizer.parameters().size(); ++i)
    if (const at::Tensor& parameter = optimizer.parameters()[i]; parameter.requires_grad())
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Update>(optimizer, i));
}

OptimizerInBackward::~OptimizerInBackward() {
  for (const at::Tensor& parameter : optimizer_.parameters())
    if (parameter.requires_grad()) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

}  // namespace memtune::optimizer
