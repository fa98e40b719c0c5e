// LibTorch has flash attention kernels for CUDA only. This program registers plain implementations for the CPU. They
// test the kernel's inputs, and how engines treat its saved tensors, without a GPU. tests/gpu tests the real kernel.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "tests/support/packed_training.h"
namespace memtune::tests::trial_flash_attention_test {
namespace {

using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

int64_t launches = 0;

// Scores of one document: [heads, length, length] in float32.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, double scale, int64_t left) {
  const int64_t length = q.size(0);
  const at::Tensor keys = k.repeat_interleave(q.size(1) / k.size(1), 1);
  const at::Tensor at = at::arange(length), behind = at.unsqueeze(1) - at;
  const at::Tensor hidden = left < 0 ? behind < 0 : (behind < 0).logical_or(behind > left);
  const at::Tensor scores = at::matmul(q.transpose(0, 1), keys.permute({1, 2, 0})) * scale;
  return scores.masked_fill(hidden, -std::numeric_limits<float>::infinity());
}

// Output and logsumexp of all documents.
std::pair<at::Tensor, at::Tensor> attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                         const at::Tensor& ends, double scale, int64_t left) {
  std::vector<at::Tensor> outputs, sums;
  for (int64_t i = 0; i + 1 < ends.numel(); ++i) {
    const auto begin = ends[i].item<int64_t>(), end = ends[i + 1].item<int64_t>();
    const auto part = [&](const at::Tensor& x) { return x.slice(0, begin, end).to(at::kFloat); };
    const at::Tensor scores = scores_of(part(q), part(k), scale, left);
    const at::Tensor values = part(v).repeat_interleave(q.size(1) / v.size(1), 1).transpose(0, 1);
    outputs.push_back(at::matmul(scores.softmax(-1), values).transpose(0, 1));
    sums.push_back(scores.logsumexp(-1));
  }
  return {at::cat(outputs).to(q.scalar_type()), at::cat(sums, 1)};
}

Five forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& ends_q,
             const std::optional<at::Tensor>& ends_k, int64_t longest_q, int64_t longest_k, double dropout,
             bool is_causal, std::optional<double> scale, std::optional<int64_t> left) {
  ++launches;
  CHECK((ends_q->scalar_type() == at::kInt));
  CHECK(at::equal(*ends_q, *ends_k));
  CHECK(longest_q == *std::ranges::max_element(kLengths));
  CHECK(longest_k == longest_q);
  CHECK(dropout == 0);
  CHECK(is_causal);
  const auto [output, sums] = attend(q, k, v, *ends_q, scale.value(), left.value_or(-1));
  const auto state = q.options().dtype(at::kUInt64);
  return {output, sums, at::empty({2}, state), at::empty({}, state), at::empty({0}, q.options())};
}

// The number of arguments depends on the release of LibTorch: from 2.12 on there are block_table and num_splits. So
// they are taken from the stack.
void forward_of_stack(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::vector<c10::IValue> given = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto at = [&](size_t i) -> const c10::IValue& { return given.at(i); };
  for (size_t unused = 12; unused < given.size(); ++unused) CHECK(at(unused).isNone());
  Five results = forward(at(0).toTensor(), at(1).toTensor(), at(2).toTensor(), at(3).toOptional<at::Tensor>(),
                         at(4).toOptional<at::Tensor>(), at(5).toInt(), at(6).toInt(), at(7).toDouble(), at(8).toBool(),
                         at(10).toOptional<double>(), at(11).toOptional<int64_t>());
  std::apply([&](auto&... each) { torch::jit::push(*stack, std::move(each)...); }, results);
}

Three backward(const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
               const at::Tensor&, const at::Tensor&, const at::Tensor& ends, const at::Tensor&, int64_t, int64_t,
               double, bool, const at::Tensor&, const at::Tensor&, std::optional<double> scale,
               std::optional<int64_t> left, std::optional<int64_t>) {
  const c10::impl::ForceDispatchKeyGuard as_outside(c10::default_included_set,
                                                    c10::default_excluded_set);  // kernels run below autograd
  const at::AutoGradMode on(true);
  const at::Tensor a = q.detach().requires_grad_(), b = k.detach().requires_grad_(), c = v.detach().requires_grad_();
  const at::Tensor output = attend(a, b, c, ends, scale.value(), left.value_or(-1)).first;
  const auto gradients = torch::autograd::grad({output}, {a, b, c}, {gradient});
  return {gradients[0], gradients[1], gradients[2]};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_flash_attention_forward", torch::CppFunction::makeFromBoxedFunction<&forward_of_stack>());
  library.impl("_flash_attention_backward", backward);
}

TEST_CASE("flash-varlen with and without a window equals sdpa under a mask of the documents") {
  for (const char* window : {"null", "32"}) {
    CAPTURE(window);
    const PackedPlace place("cpu", window);
    launches = 0;
    const Trained flash = train(place.request("flash-varlen", "bfloat16"));
    CHECK(launches == 2 * 3);
    check_near(flash, train(place.request("sdpa", "bfloat16")), train(place.request("sdpa", "float32")));
  }
}

TEST_CASE("a window masks earlier tokens on a CPU") { check_window_counts("cpu"); }

TEST_CASE("autocast casts queries and keys and values for flash-varlen on a CPU") { check_autocast_casts("cpu"); }

TEST_CASE("flash-varlen gives the same bits with activations kept or recomputed or offloaded on a CPU") {
  check_equal_under_strategies("cpu");
}

TEST_CASE("checkpoint:op and checkpoint:cheap save flash-varlen's outputs and checkpoint:full recomputes them") {
  const PackedPlace place("cpu", "32");
  const auto launched = [&](const char* strategy) {
    const plan::TrialRequest request = planned(place.request("flash-varlen", "bfloat16"), strategy);
    launches = 0;
    train(request);
    return launches;
  };
  CHECK(launched("checkpoint:op") == 2 * 3);
  CHECK(launched("checkpoint:cheap") == 2 * 3);
  CHECK(launched("checkpoint:full") == 2 * 2 * 3);
}

}  // namespace
}  // namespace memtune::tests::trial_flash_attention_test
