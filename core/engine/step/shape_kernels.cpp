#include "core/engine/step/shape_kernels.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/engine/step/attention_arguments.h"

namespace memtune::step {
namespace {

std::tuple<at::Tensor, at::Tensor> flash_attention_shapes(const at::Tensor& q, const at::Tensor&, const at::Tensor&,
                                                          double, bool, const std::optional<at::Tensor>&,
                                                          std::optional<double>) {
  const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2);
  const auto sums = q.options().dtype(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  return {at::empty_like(q), at::empty({batch, length, heads}, sums).transpose(1, 2)};
}

// The kernel choice depends on shapes and strides only. Memory that is never touched costs nothing.
at::Tensor untouched_on_cpu(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU))
      .set_requires_grad(tensor.requires_grad());
}

at::Tensor index_select_shape(const at::Tensor& self, int64_t dimension, const at::Tensor& index) {
  std::vector<int64_t> shape = self.sizes().vec();
  shape.at(at::maybe_wrap_dim(dimension, self.dim())) = index.numel();
  return at::empty(shape, self.options());
}

// With the strides that CUDA and the CPU give it: those of a permuted argument.
at::Tensor where_shape(const at::Tensor& condition, const at::Tensor& yes, const at::Tensor& no) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).declare_static_dtype_and_device(at::result_type(yes, no), condition.device());
  config.add_owned_output(at::Tensor());
  for (const at::Tensor& input : {condition, yes, no}) config.add_owned_const_input(input);
  return config.build().output();
}

at::Tensor& where_shape_out(const at::Tensor& condition, const at::Tensor& yes, const at::Tensor& no, at::Tensor& out) {
  out.resize_(where_shape(condition, yes, no).sizes());
  return out;
}

at::Tensor floor_divide_shape(const at::Tensor& number, const at::Tensor& divisor) {
  return at::empty(at::infer_size(number.sizes(), divisor.sizes()),
                   number.options().dtype(at::result_type(number, divisor)));
}

at::Tensor histc_shape(const at::Tensor& self, int64_t bins, const at::Scalar&, const at::Scalar&) {
  return at::empty({bins}, self.options());
}

at::Tensor grouped_mm_shape(const at::Tensor& rows, const at::Tensor& matrices, const std::optional<at::Tensor>& ends,
                            const std::optional<at::Tensor>&, std::optional<at::ScalarType> type) {
  TORCH_CHECK_NOT_IMPLEMENTED(rows.dim() == 2 && ends, "other shapes of _grouped_mm");
  const at::TensorOptions options = rows.options().dtype(type.value_or(rows.scalar_type()));
  if (matrices.dim() == 3) return at::empty({rows.size(0), matrices.size(2)}, options);
  return at::empty({ends->size(0), rows.size(0), matrices.size(1)}, options);  // gradient of the matrices
}

// Mean and reciprocal standard deviation have the dtype of the weight, or of the input without a weight.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_shapes(const at::Tensor& x, c10::SymIntArrayRef normed,
                                                                 const std::optional<at::Tensor>& weight,
                                                                 const std::optional<at::Tensor>&, double) {
  std::vector<int64_t> shape = x.sizes().vec();
  std::fill(shape.end() - static_cast<int64_t>(normed.size()), shape.end(), 1);
  const auto type = weight && weight->defined() ? weight->scalar_type() : x.scalar_type();
  const at::Tensor mean = at::empty(shape, x.options().dtype(type));
  return {at::empty(x.sizes(), x.options()), mean, at::empty_like(mean)};
}

// A boolean mask is converted to a full numeric mask before the kernel choice.
std::optional<at::Tensor> numbers_of(const std::optional<at::Tensor>& mask, const at::Tensor& q) {
  return mask && mask->scalar_type() == at::kBool ? at::zeros_like(*mask, q.scalar_type()) : mask;
}

bool is_flash(const AttentionArguments& a) {
  const auto mask = a.mask ? std::optional(untouched_on_cpu(*a.mask)) : std::nullopt;
  const int64_t choice = at::_fused_sdp_choice(untouched_on_cpu(a.q), untouched_on_cpu(a.k), untouched_on_cpu(a.v),
                                               mask, a.dropout, a.causal, a.scale, a.grouped);
  return choice == static_cast<int64_t>(at::SDPBackend::flash_attention);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("index_select", index_select_shape);
  library.impl("where.self", where_shape);
  library.impl("where.self_out", where_shape_out);
  library.impl("floor_divide", floor_divide_shape);
  library.impl("histc", histc_shape);
  library.impl("_grouped_mm", grouped_mm_shape);
  library.impl("native_layer_norm", layer_norm_shapes);
  library.impl("_scaled_dot_product_flash_attention_for_cpu", flash_attention_shapes);
}

void use_cpu_attention_kernels(program::Program& program) {
  replace_attention(program, [](AttentionArguments a) -> std::optional<at::Tensor> {
    a.mask = numbers_of(a.mask, a.q);
    if (!is_flash(a)) return {};
    return std::get<0>(
        at::_scaled_dot_product_flash_attention_for_cpu(a.q, a.k, a.v, a.dropout, a.causal, a.mask, a.scale));
  });
}

}  // namespace memtune::step
