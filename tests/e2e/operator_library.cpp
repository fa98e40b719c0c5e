// A library of operators as people bring it: a kernel of its own, with a backward that saves a tensor.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Cube : public torch::autograd::Function<Cube> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {gradients[0] * 3 * x * x};
  }
};

at::Tensor cube(const at::Tensor& x) { return Cube::apply(x); }

}  // namespace

TORCH_LIBRARY(memtune_tests, library) {
  library.def("cube(Tensor x) -> Tensor");
  library.impl("cube", c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(cube));
}
