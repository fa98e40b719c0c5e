#include "core/engine/step/cuda_shape_kernels.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/add_meta_dispatch.h>
#include <ATen/ops/sum_meta_dispatch.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine/step/attention_arguments.h"
#include "core/model/ops/meta_autocast.h"

namespace memtune::step {
namespace {

using at::Tensor;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

constexpr int64_t kWideHead = 128;  // cuDNN has no backward for wider heads, FlashAttention none above kWidestHead
constexpr int64_t kWidestHead = 256;
constexpr int64_t kRowBlock = 32, kFlashBlock = 128;  // sequence lengths are rounded up to these

int64_t rounded_up(int64_t number, int64_t to) { return (number + to - 1) / to * to; }

// Shapes of q, k, v: [batch, heads, length, width]. Results are contiguous as [batch, length, heads, width].
Tensor output_of(const Tensor& q, const Tensor& v) {
  return at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, q.options()).transpose(1, 2);
}

Tensor sums_of(const Tensor& q, int64_t length) {
  return at::empty({q.size(0), q.size(1), length}, q.options().dtype(at::kFloat));
}

Tensor number(const Tensor& like) { return at::empty({}, like.options().dtype(at::kLong)); }

Tensor float_copy(const Tensor& of, int64_t length, int64_t heads) {
  return at::empty({of.size(0), heads, length, of.size(3)}, of.options().dtype(at::kFloat));
}

// Of grouped queries: kernels write a gradient for each query head first, and add those of a group behind it.
std::vector<Tensor> gradients_by_query_head(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (k.size(1) == q.size(1)) return {};
  const auto wide = [&](const Tensor& tensor) {
    return at::empty({tensor.size(0), q.size(1), tensor.size(2), tensor.size(3)}, tensor.options());
  };
  return {wide(k), wide(v)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> cudnn_shapes(
    const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>&, bool, double, bool, bool,
    std::optional<double>) {
  const Tensor sums = sums_of(q, q.size(2)).unsqueeze(-1);
  return {output_of(q, v), sums, Tensor(), Tensor(), q.size(2), k.size(2), number(q), number(q), Tensor()};
}

Gradients cudnn_backward_shapes(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                                const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&, c10::SymInt, c10::SymInt, double, bool, std::optional<double>) {
  const Gradients gradients{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
  const Tensor sums = sums_of(q, q.size(2)), sum = float_copy(q, q.size(2), q.size(1));
  const std::vector<Tensor> wide = gradients_by_query_head(q, k, v);
  return gradients;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> flash_shapes(
    const Tensor& q, const Tensor& k, const Tensor& v, double, bool, bool, std::optional<double>) {
  const Tensor random = at::empty({2}, q.options().dtype(at::kUInt64));
  return {output_of(q, v),
          sums_of(q, q.size(2)),
          Tensor(),
          Tensor(),
          q.size(2),
          k.size(2),
          random,
          at::empty({0}, random.options()),
          at::empty({0}, q.options())};
}

Gradients flash_backward_shapes(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                                const Tensor&, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double, bool,
                                const Tensor&, const Tensor&, std::optional<double>) {
  const Gradients gradients{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
  const int64_t length = rounded_up(q.size(2), kFlashBlock);
  const Tensor sums = sums_of(q, length), sum = float_copy(q, length, q.size(1));
  const std::vector<Tensor> wide = gradients_by_query_head(q, k, v);
  return gradients;
}

// Of packed documents: q, k, v are [tokens, heads, width], and `ends` has the start of each document and the end.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_varlen_shapes(
    const Tensor& q, const Tensor&, const Tensor&, const std::optional<Tensor>&, const std::optional<Tensor>&,
    c10::SymInt, c10::SymInt, double, bool, bool, std::optional<double>, std::optional<c10::SymInt>,
    std::optional<c10::SymInt>, const std::optional<Tensor>&, const std::optional<Tensor>&) {
  const Tensor random = at::empty({2}, q.options().dtype(at::kUInt64));
  return {at::empty_like(q), at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat)), random,
          at::empty({0}, random.options()), at::empty({0}, q.options())};
}

// Source: mha_varlen_bwd of aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp.
Gradients flash_varlen_backward_shapes(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                                       const Tensor&, const Tensor& ends, const Tensor&, c10::SymInt, c10::SymInt,
                                       double, bool, const Tensor&, const Tensor&, std::optional<double>,
                                       std::optional<c10::SymInt>, std::optional<c10::SymInt>) {
  const Gradients gradients{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
  const int64_t rows = q.size(0) + kFlashBlock * (ends.size(0) - 1), heads = q.size(1), width = q.size(2);
  const at::TensorOptions in_float = q.options().dtype(at::kFloat);
  const Tensor sums = at::empty({heads, rows}, in_float);
  const Tensor sum =
      at::empty({rows, heads, width <= kWideHead ? rounded_up(width, kRowBlock) : kWidestHead}, in_float);
  std::vector<Tensor> wide;
  if (k.size(1) != heads)
    for (const Tensor& each : {k, v}) wide.push_back(at::empty({each.size(0), heads, width}, each.options()));
  return gradients;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_shapes(const Tensor& q, const Tensor&, const Tensor& v,
                                                            const std::optional<Tensor>&, bool with_sums, double, bool,
                                                            std::optional<double>) {
  return {output_of(q, v), sums_of(q, with_sums ? rounded_up(q.size(2), kRowBlock) : 0), number(q), number(q)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward_shapes(const Tensor&, const Tensor& q, const Tensor& k,
                                                                     const Tensor& v, const Tensor& bias, const Tensor&,
                                                                     const Tensor&, const Tensor&, const Tensor&,
                                                                     double, std::array<bool, 4> wanted, bool,
                                                                     std::optional<double>) {
  const Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  const Tensor dbias = wanted[3] && bias.defined() ? at::empty_like(bias) : Tensor();
  const Tensor sums = sums_of(q, rounded_up(q.size(2), kRowBlock)), sum = float_copy(q, q.size(2), q.size(1));
  return {dq, dk, dv, dbias};
}

// Sorts the indices first, with their places.
Tensor embedding_backward_shapes(const Tensor& gradient, const Tensor& indices, c10::SymInt rows, c10::SymInt, bool) {
  const Tensor out = at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
  const Tensor sorted = at::empty_like(indices), places = at::empty_like(indices);
  return out;
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward_shapes(const Tensor&, const Tensor& x, c10::SymIntArrayRef,
                                                              const Tensor&, const Tensor&,
                                                              const std::optional<Tensor>& weight,
                                                              const std::optional<Tensor>& bias,
                                                              std::array<bool, 3> wanted) {
  const auto like = [](const std::optional<Tensor>& tensor, bool is_wanted) {
    return is_wanted && tensor && tensor->defined() ? at::empty_like(*tensor) : Tensor();
  };
  return {wanted[0] ? at::empty(x.sizes(), x.options()) : Tensor(), like(weight, wanted[1]), like(bias, wanted[2])};
}

// What cuDNN takes as workspace is not known.
Tensor convolution_shape(const Tensor& x, const Tensor& weight, const std::optional<Tensor>&,
                         c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                         bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  std::vector<int64_t> shape{x.size(0), transposed ? weight.size(1) * groups.expect_int() : weight.size(0)};
  for (int64_t i = 2; i < x.dim(); ++i) {
    const auto at = [&](c10::SymIntArrayRef sizes) { return sizes[i - 2].expect_int(); };
    const int64_t reach = at(dilation) * (weight.size(i) - 1);
    shape.push_back(transposed ? (x.size(i) - 1) * at(stride) - 2 * at(padding) + reach + at(output_padding) + 1
                               : (x.size(i) + 2 * at(padding) - reach - 1) / at(stride) + 1);
  }
  return at::empty(shape, x.options().memory_format(x.suggest_memory_format()));
}

Gradients convolution_backward_shapes(const Tensor& gradient, const Tensor& x, const Tensor& weight,
                                      c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef, bool,
                                      c10::SymIntArrayRef, c10::SymInt, std::array<bool, 3> wanted) {
  return {wanted[0] ? at::empty_like(x) : Tensor(), wanted[1] ? at::empty_like(weight) : Tensor(),
          wanted[2] ? at::empty({gradient.size(1)}, gradient.options()) : Tensor()};
}

// Statistics are float.
std::tuple<Tensor, Tensor, Tensor> batch_norm_shapes(const Tensor& x, const std::optional<Tensor>&,
                                                     const std::optional<Tensor>&, const std::optional<Tensor>&,
                                                     const std::optional<Tensor>&, bool training, double, double) {
  const auto statistics = [&] { return at::empty({training ? x.size(1) : 0}, x.options().dtype(at::kFloat)); };
  return {at::empty_like(x), statistics(), statistics()};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_backward_shapes(
    const Tensor&, const Tensor& x, const std::optional<Tensor>& weight, const std::optional<Tensor>&,
    const std::optional<Tensor>&, const std::optional<Tensor>&, const std::optional<Tensor>&, bool, double,
    std::array<bool, 3> wanted) {
  const auto of_weight = [&](bool is_wanted) {
    return is_wanted && weight && weight->defined() ? at::empty_like(*weight) : Tensor();
  };
  return {wanted[0] ? at::empty_like(x) : Tensor(), of_weight(wanted[1]), of_weight(wanted[2])};
}

// CUDA's fused kernel saves a byte for each element.
std::tuple<Tensor, Tensor> dropout_shapes(const Tensor& x, double, std::optional<bool>) {
  return {at::empty_like(x), at::empty_like(x, x.options().dtype(at::kBool))};
}

Tensor dropout_backward_shape(const Tensor& gradient, const Tensor&, double) { return at::empty_like(gradient); }

// Autograd adds gradients of a tensor with several consumers. On CUDA it adds into the first of them; on the meta
// device it never does. Only it adds temporaries of equal shape without grad mode, in practice.
Tensor add_in_place_where_cuda_does(const Tensor& a, const Tensor& b, const at::Scalar& factor) {
  const bool temporary = a.use_count() == 1 && b.use_count() == 1 && a.storage().use_count() == 1;
  const bool alike = a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  if (!at::GradMode::is_enabled() && temporary && alike && a.is_non_overlapping_and_dense()) return a;
  return at::meta::add(a, b, factor);
}

// What the reduction of `inputs` rows to a row of `outputs` takes beside its result, as on a GPU of 132
// multiprocessors. Source: aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig and ReduceConfig::global_memory_size.
int64_t row_sum_workspace_bytes(int64_t inputs, int64_t outputs) {
  constexpr int64_t kMultiprocessors = 132, kThreads = 512, kThreadsPerMultiprocessor = 2048, kWarp = 32, kVector = 4;
  constexpr int64_t kFewValues = 16, kManyValues = 256;  // of a thread
  if (outputs == 0 || inputs < 2) return 0;
  const int64_t vector = outputs % kVector == 0 ? kVector : 1, threads = kThreads / vector;
  const auto power = [](int64_t number) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(number))); };
  const int64_t most = power(std::max<int64_t>(1, outputs / vector));
  const int64_t height = std::min(power(inputs), threads / std::min(most, kWarp));
  const int64_t width = std::min(most, threads / height);
  const auto parts = [](int64_t number, int64_t of) { return (number + of - 1) / of; };
  const int64_t values = parts(inputs, height), grid = parts(outputs, width * vector);
  const int64_t target = kMultiprocessors * (kThreadsPerMultiprocessor / (width * height));
  if (values < kManyValues || grid > target) return 0;
  const int64_t blocks = std::max(std::min(parts(target, grid), parts(values, kFewValues)), parts(values, kManyValues));
  return blocks > 1 ? static_cast<int64_t>(sizeof(float)) * outputs * blocks * width * vector : 0;
}

Tensor sum_with_workspace(const Tensor& x, at::OptionalIntArrayRef dimensions, bool keep,
                          std::optional<at::ScalarType> type) {
  const Tensor out = at::meta::sum(x, dimensions, keep, type);
  const int64_t last = x.dim() - 1;
  const bool of_rows =
      dimensions && !dimensions->empty() && x.dim() > 1 && x.is_floating_point() &&
      std::ranges::none_of(*dimensions, [&](int64_t d) { return at::maybe_wrap_dim(d, x.dim()) == last; });
  if (!of_rows || out.numel() == 0) return out;
  const int64_t bytes = row_sum_workspace_bytes(x.numel() / out.numel(), out.numel());
  const Tensor workspace = at::empty({bytes}, x.options().dtype(at::kByte));
  const Tensor semaphores = at::empty({bytes > 0 ? 1 : 0}, x.options().dtype(at::kInt));
  return out;
}

// The result is like that argument.
template <size_t kArgument>
void like_argument(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const Tensor out = at::empty_like((*stack)[stack->size() - count + kArgument].toTensor());
  torch::jit::drop(*stack, count);
  stack->emplace_back(out);
}

// In place: the result is the first argument.
void first_argument(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size() - 1);
}

// For updates in place without a result: removes the arguments.
void update_nothing(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

enum class Kernel { composite, cudnn, flash, efficient };

// Order of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
Kernel kernel_of(const AttentionArguments& a, int capability) {
  const auto& [q, k, v] = std::tie(a.q, a.k, a.v);
  const bool half = q.scalar_type() == at::kHalf || (q.scalar_type() == at::kBFloat16 && capability >= 80);
  const int64_t width = q.size(3);
  const bool plain = q.dim() == 4 && k.size(3) == width && v.size(3) == width && width % 8 == 0;
  // A bias that was permuted, as that of T5, has another stride.
  const bool dense_mask = !a.mask || a.mask->size(-1) == 1 || a.mask->stride(-1) == 1;
  if (!plain || !dense_mask) return Kernel::composite;
  const bool prefers_cudnn = capability == 90 || capability == 100;
  if (half && prefers_cudnn && !a.mask && width <= kWideHead) return Kernel::cudnn;
  if (half && capability >= 80 && !a.mask && width <= kWidestHead) return Kernel::flash;
  if (a.grouped) return Kernel::composite;
  return Kernel::efficient;
}

// A boolean mask is converted to numbers, and its last dimension padded to a multiple of 8 for alignment.
std::optional<Tensor> numbers_of(const std::optional<Tensor>& mask, const Tensor& q, const Tensor& k) {
  if (!mask) return mask;
  Tensor numbers = mask->scalar_type() == at::kBool ? at::empty(mask->sizes(), q.options()) : *mask;
  if (const int64_t length = numbers.size(-1); length % 8 != 0) {
    std::vector<int64_t> shape = numbers.sizes().vec();
    shape.back() = rounded_up(length, 8);
    numbers = at::empty(shape, numbers.options()).narrow(-1, 0, length);
  }
  return numbers.expand({q.size(0), q.size(1), q.size(2), k.size(2)});
}

// With a mask. Weights and what is multiplied with them are float, as on CUDA where the reduction has to be. Source:
// _scaled_dot_product_attention_math of aten/src/ATen/native/transformers/attention.cpp.
std::optional<Tensor> composite_attention(const AttentionArguments& a) {
  if (!a.mask || a.mask->scalar_type() == at::kBool || a.grouped || a.causal || a.q.scalar_type() == at::kFloat)
    return {};
  const double root = std::sqrt(a.scale.value_or(1 / std::sqrt(static_cast<double>(a.q.size(-1)))));
  const Tensor q = a.q.to(at::kFloat) * root, k = a.k.to(at::kFloat).transpose(-2, -1) * root;
  Tensor weights = at::_safe_softmax(at::matmul(q, k).add_(*a.mask), -1);
  if (a.dropout > 0) weights = std::get<0>(at::native_dropout(weights, a.dropout, true));
  return at::matmul(weights, a.v.to(at::kFloat)).to(a.q.scalar_type());
}

std::optional<Tensor> attention(AttentionArguments a, int capability) {
  for (Tensor* each : {&a.q, &a.k, &a.v}) *each = ops::meta_autocast_cast(*each);
  if (a.mask) a.mask = ops::meta_autocast_cast(*a.mask);
  const bool records =
      at::GradMode::is_enabled() && (a.q.requires_grad() || a.k.requires_grad() || a.v.requires_grad());
  switch (kernel_of(a, capability)) {
    case Kernel::cudnn:
      return std::get<0>(at::_scaled_dot_product_cudnn_attention(a.q, a.k, a.v, std::nullopt, records, a.dropout,
                                                                 a.causal, false, a.scale));
    case Kernel::flash:
      return std::get<0>(at::_scaled_dot_product_flash_attention(a.q, a.k, a.v, a.dropout, a.causal, false, a.scale));
    case Kernel::efficient:
      return std::get<0>(at::_scaled_dot_product_efficient_attention(a.q, a.k, a.v, numbers_of(a.mask, a.q, a.k),
                                                                     records, a.dropout, a.causal, a.scale));
    case Kernel::composite: return composite_attention(a);
  }
  return {};
}

// The composite takes it on a CUDA device alone.
std::function<void(program::Stack&)> with_fused_dropout(std::function<void(program::Stack&)> composite) {
  return [composite = std::move(composite)](program::Stack& stack) {
    const size_t first = stack.size() - 3;
    const double share = stack[first + 1].toDouble();
    if (!stack[first + 2].toBool() || share <= 0 || share >= 1) return composite(stack);
    const Tensor out = std::get<0>(at::native_dropout(stack[first].toTensor(), share, true));
    stack.erase(stack.end() - 3, stack.end());
    stack.emplace_back(out);
  };
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("_scaled_dot_product_cudnn_attention", cudnn_shapes);
  library.impl("_scaled_dot_product_cudnn_attention_backward", cudnn_backward_shapes);
  library.impl("_scaled_dot_product_flash_attention", flash_shapes);
  library.impl("_scaled_dot_product_flash_attention_backward", flash_backward_shapes);
  library.impl("_flash_attention_forward", flash_varlen_shapes);
  library.impl("_flash_attention_backward", flash_varlen_backward_shapes);
  library.impl("_scaled_dot_product_efficient_attention", efficient_shapes);
  library.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward_shapes);
  library.impl("convolution_overrideable", convolution_shape);
  library.impl("convolution_backward_overrideable", convolution_backward_shapes);
  library.impl("native_batch_norm", batch_norm_shapes);
  library.impl("native_batch_norm_backward", batch_norm_backward_shapes);
  library.impl("native_dropout", dropout_shapes);
  library.impl("native_dropout_backward", dropout_backward_shape);
  library.impl("embedding_dense_backward", embedding_backward_shapes);
  library.impl("native_layer_norm_backward", layer_norm_backward_shapes);
  // Of others, cpu_kernel_shapes.h runs the CPU's kernel, which takes time for large tensors.
  for (const char* result : {"relu", "hardswish", "hardtanh"})
    library.impl(result, torch::CppFunction::makeFromBoxedFunction<&like_argument<0>>());
  for (const char* gradient : {"hardswish_backward", "hardtanh_backward", "mse_loss_backward"})
    library.impl(gradient, torch::CppFunction::makeFromBoxedFunction<&like_argument<1>>());
  for (const char* in_place : {"relu_", "hardswish_", "hardtanh_"})
    library.impl(in_place, torch::CppFunction::makeFromBoxedFunction<&first_argument>());
  for (const char* update : {"_fused_adamw_", "_fused_adamw_.tensor_lr", "_fused_sgd_", "_fused_sgd_.tensor_lr"})
    library.impl(update, torch::CppFunction::makeFromBoxedFunction<&update_nothing>());
}

void use_cuda_kernels(program::Program& program, int capability) {
  replace_attention(program, [capability](AttentionArguments a) { return attention(std::move(a), capability); });
  for (program::Op& op : program.body.ops)
    if (op.name == "aten::dropout" && op.inputs.size() == 3) op.run = with_fused_dropout(std::move(op.run));
}

void allocate_as_cuda(int capability) {
  static torch::Library* library = nullptr;  // stays registered
  if (library != nullptr) return;
  static const auto* workspace =
      new Tensor(at::empty({cublas_workspace_bytes(capability)}, at::TensorOptions(c10::kMeta).dtype(at::kByte)));
  (void)workspace;  // as long as the process
  library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
  library->impl("add.Tensor", add_in_place_where_cuda_does);
  library->impl("sum.dim_IntList", sum_with_workspace);
}

int64_t cublas_workspace_bytes(int capability) {
  return capability >= 90 ? int64_t{32} << 20 : (int64_t{4096} * 2 + 16 * 8) << 10;
}

}  // namespace memtune::step
