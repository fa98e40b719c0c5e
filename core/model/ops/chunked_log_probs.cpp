#include "core/model/ops/chunked_log_probs.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "core/base/device/torch/kernels.h"
#include "core/model/ops/autocast.h"
#include "core/model/ops/linear_cross_entropy.h"

namespace memtune::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kTileTokens = 4096, kTileVocabulary = 32768;  // TRL's
constexpr int64_t kBlockTokens = 256;  // rows of a tile that are in float32 at a time, without kernels

struct VocabularyLayer {
  at::Tensor weight, bias;  // bias may be undefined
  at::ScalarType type;      // of the product
};

// In float32. `tanh` receives what the backward of the cap needs.
at::Tensor scaled(const at::Tensor& logits, const LogitScaleAndSoftcap& scaling, at::Tensor* tanh = nullptr) {
  at::Tensor z = logits.to(at::kFloat);
  if (scaling.scale != 1) z = z.mul(scaling.scale);
  if (!scaling.softcap) return z;
  const at::Tensor share = z.div(*scaling.softcap).tanh();
  if (tanh) *tanh = share;
  return share.mul(*scaling.softcap);
}

struct Range {
  int64_t begin, count;
  at::Tensor of(const at::Tensor& tensor) const { return tensor.narrow(0, begin, count); }
};

template <typename Visit>
void for_each_range(int64_t size, int64_t most, const Visit& visit) {
  for (int64_t begin = 0; begin < size; begin += most) visit(Range{begin, std::min(most, size - begin)});
}

// Calls visit(tokens, vocabulary, logits, hidden of the tile, weight of the tile) for each tile. All tiles share one
// memory, which has the full tile's width in TRL, too.
template <typename Visit>
void for_each_tile(const at::Tensor& hidden, const VocabularyLayer& layer, const Visit& visit) {
  const int64_t rows = hidden.size(0);
  const at::Tensor memory =
      at::empty({std::min(rows, kTileTokens), kTileVocabulary}, hidden.options().dtype(layer.type));
  for_each_range(rows, kTileTokens, [&](const Range& tokens) {
    const at::Tensor x = tokens.of(hidden).to(layer.type);
    for_each_range(layer.weight.size(0), kTileVocabulary, [&](const Range& vocabulary) {
      const at::Tensor w = vocabulary.of(layer.weight).to(layer.type);
      at::Tensor logits = memory.narrow(0, 0, tokens.count).narrow(1, 0, vocabulary.count);
      at::mm_out(logits, x, w.t());
      if (layer.bias.defined()) logits.add_(vocabulary.of(layer.bias).to(layer.type));
      visit(tokens, vocabulary, logits, x, w);
    });
  });
}

device::CrossEntropyLogitTile tile_of(const at::Tensor& logits, const LogitScaleAndSoftcap& scaling,
                                      const at::Tensor& targets, int64_t first_column) {
  return {.logits = logits.data_ptr(),
          .type = device::kernel_dtype(logits.scalar_type()),
          .rows = logits.size(0),
          .columns = logits.size(1),
          .stride = logits.stride(0),
          .targets = targets.const_data_ptr<int64_t>(),
          .first_column = first_column,
          .scale = static_cast<float>(scaling.scale),
          .softcap = static_cast<float>(scaling.softcap.value_or(0))};
}

// Sum of exponentials of each token, relative to the largest logit so far.
struct Statistics {
  explicit Statistics(const at::Tensor& targets)
      : largest(
            at::full(targets.sizes(), -std::numeric_limits<double>::infinity(), targets.options().dtype(at::kFloat))),
        sum(at::zeros_like(largest)),
        at_target(at::zeros_like(largest)) {}

  void add(const Range& rows, const at::Tensor& z, const at::Tensor& local) const {
    at::Tensor before = rows.of(largest), sums = rows.of(sum), chosen = rows.of(at_target);
    const at::Tensor now = at::maximum(before, z.amax(-1));
    const at::Tensor exponentials = at::exp(z - now.unsqueeze(-1));
    sums.mul_(at::exp(before - now)).add_(exponentials.sum(-1));
    before.copy_(now);
    const at::Tensor inside = local.ge(0).logical_and(local.lt(z.size(1)));
    const at::Tensor found = z.gather(-1, local.clamp(0, z.size(1) - 1).unsqueeze(-1)).squeeze(-1);
    chosen.copy_(at::where(inside, found, chosen));
  }

  // The same for a whole tile, by a kernel.
  void add(const device::CudaKernelTable& kernels, const Range& rows, const device::CrossEntropyLogitTile& tile) const {
    kernels.fold_logits(
        tile,
        {rows.of(largest).data_ptr<float>(), rows.of(sum).data_ptr<float>(), rows.of(at_target).data_ptr<float>()},
        largest.device().index());
  }

  at::Tensor largest, sum, at_target;
};

// Overwrites a tile's logits with the gradients of the log probabilities of `targets`, times `outer`.
void differentiate(const at::Tensor& logits, const LogitScaleAndSoftcap& scaling, const at::Tensor& targets,
                   int64_t first_column, const at::Tensor& normalizers, const at::Tensor& outer) {
  if (const auto* kernels = device::kernels_for(logits.device(), logits.scalar_type()))
    return kernels->differentiate_logits(tile_of(logits, scaling, targets, first_column),
                                         normalizers.const_data_ptr<float>(), outer.const_data_ptr<float>(),
                                         logits.device().index());
  const at::Tensor columns = at::arange(first_column, first_column + logits.size(1), targets.options());
  for_each_range(logits.size(0), kBlockTokens, [&](const Range& rows) {
    at::Tensor part = rows.of(logits);
    at::Tensor tanh;
    const at::Tensor p = at::exp(scaled(part, scaling, &tanh) - rows.of(normalizers).unsqueeze(-1));
    const at::Tensor is_target = columns.eq(rows.of(targets).unsqueeze(-1));
    at::Tensor gradient = rows.of(outer).unsqueeze(-1) * (is_target.to(at::kFloat) - p);
    if (tanh.defined()) gradient.mul_(1 - tanh * tanh);
    if (scaling.scale != 1) gradient.mul_(scaling.scale);
    part.copy_(gradient);
  });
}

void add_product(at::Tensor to, const at::Tensor& a, const at::Tensor& b) {
  if (to.is_cuda() && a.scalar_type() != at::kFloat)
    at::addmm_out(to, to, a, b, at::kFloat, 1, 1);
  else
    to.addmm_(a.to(at::kFloat), b.to(at::kFloat));
}

class LogProbsNode : public torch::autograd::Function<LogProbsNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const at::Tensor& targets, at::ScalarType type,
                            const LogitScaleAndSoftcap& scaling) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const VocabularyLayer layer{weight, bias.value_or(at::Tensor()), type};
    const Statistics statistics(targets);
    const device::CudaKernelTable* kernels = device::kernels_for(hidden.device(), type);
    for_each_tile(
        hidden, layer, [&](const Range& tokens, const Range& vocabulary, const at::Tensor& logits, auto&&...) {
          if (kernels)
            return statistics.add(*kernels, tokens, tile_of(logits, scaling, tokens.of(targets), vocabulary.begin));
          for_each_range(tokens.count, kBlockTokens, [&](const Range& block) {
            const Range rows{tokens.begin + block.begin, block.count};
            statistics.add(rows, scaled(block.of(logits), scaling), rows.of(targets) - vocabulary.begin);
          });
        });
    const at::Tensor normalizer = statistics.largest + at::log(statistics.sum);
    context->save_for_backward({hidden, weight, layer.bias, targets, normalizer});
    context->saved_data["type"] = static_cast<int64_t>(type);
    context->saved_data["scale"] = scaling.scale;
    if (scaling.softcap) context->saved_data["softcap"] = *scaling.softcap;
    return statistics.at_target - normalizer;
  }

  static variable_list backward(AutogradContext* context, const variable_list& outer) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &hidden = saved[0], &targets = saved[3], &normalizer = saved[4];
    const VocabularyLayer layer{saved[1], saved[2], static_cast<at::ScalarType>(context->saved_data["type"].toInt())};
    const LogitScaleAndSoftcap scaling = scaling_of(*context);
    const at::Tensor scales = outer[0].to(at::kFloat).contiguous();
    const auto zeros = [&](size_t i, const at::Tensor& like) {
      return context->needs_input_grad(i) ? at::zeros(like.sizes(), like.options().dtype(at::kFloat)) : at::Tensor();
    };
    const at::Tensor of_hidden = zeros(0, hidden), of_weight = zeros(1, layer.weight);
    const at::Tensor of_bias = layer.bias.defined() ? zeros(2, layer.bias) : at::Tensor();
    for_each_tile(hidden, layer,
                  [&](const Range& tokens, const Range& vocabulary, const at::Tensor& logits, const at::Tensor& x,
                      const at::Tensor& w) {
                    differentiate(logits, scaling, tokens.of(targets), vocabulary.begin, tokens.of(normalizer),
                                  tokens.of(scales));
                    if (of_hidden.defined()) add_product(tokens.of(of_hidden), logits, w);
                    if (of_weight.defined()) add_product(vocabulary.of(of_weight), logits.t(), x);
                    if (of_bias.defined()) vocabulary.of(of_bias).add_(logits.sum(0, /*keepdim=*/false, at::kFloat));
                  });
    const auto like = [](const at::Tensor& gradient, const at::Tensor& input) {
      return gradient.defined() ? gradient.to(input.scalar_type()) : at::Tensor();
    };
    return {like(of_hidden, hidden), like(of_weight, layer.weight), like(of_bias, layer.bias), {}, {}, {}};
  }

 private:
  static LogitScaleAndSoftcap scaling_of(AutogradContext& context) {
    const auto cap = context.saved_data.find("softcap");
    return {context.saved_data["scale"].toDouble(),
            cap == context.saved_data.end() ? std::nullopt : std::optional(cap->second.toDouble())};
  }
};

}  // namespace

at::Tensor chunked_log_probs(const at::Tensor& hidden, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                             const at::Tensor& labels, const LogitScaleAndSoftcap& scaling) {
  const c10::DeviceType device = hidden.device().type();
  const AutocastState autocast = AutocastState::now(device);
  const at::ScalarType type = autocast.enabled ? autocast.dtype : hidden.scalar_type();
  const AutocastScope off(device, {false, autocast.dtype});
  const at::Tensor counts = labels.ne(kIgnoredLabel);
  if (hidden.is_cuda()) {
    const at::Tensor some =
        LogProbsNode::apply(hidden.index({counts}), weight, bias, labels.index({counts}), type, scaling);
    return some.new_zeros(labels.sizes()).masked_scatter(counts, some);
  }
  const at::Tensor all = LogProbsNode::apply(hidden.reshape({-1, hidden.size(-1)}), weight, bias,
                                             labels.clamp_min(0).reshape(-1), type, scaling);
  return all.view(labels.sizes()).masked_fill(counts.logical_not(), 0);
}

}  // namespace memtune::ops
