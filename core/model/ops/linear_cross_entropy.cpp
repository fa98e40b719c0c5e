#include "core/model/ops/linear_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>
#include <utility>

#include "core/model/ops/autocast.h"
#include "core/model/ops/meta_autocast.h"

namespace memtune::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using StepKind = LogitElementwiseOperation::Kind;

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Layer {
  at::Tensor weight, bias;  // bias may be undefined
};

struct Gradients {
  at::Tensor hidden, weight, bias;  // undefined: not needed
};

Gradients make_gradients(const at::Tensor& hidden, const Layer& layer, const std::array<bool, 3>& needed) {
  Gradients result;
  if (needed[0]) result.hidden = at::empty_like(hidden, at::MemoryFormat::Contiguous);
  if (needed[1]) result.weight = at::zeros_like(layer.weight, at::MemoryFormat::Contiguous);
  if (needed[2]) result.bias = at::zeros_like(layer.bias);
  return result;
}

// One chunk of tokens: forward and backward through layer and loss.
class Chunk {
 public:
  Chunk(at::Tensor hidden, const Layer& layer, at::Tensor labels, const std::vector<LogitElementwiseOperation>& steps)
      : hidden_(std::move(hidden)), layer_(layer), labels_(std::move(labels)), steps_(steps) {
    at::Tensor logits = at::linear(hidden_, layer_.weight, layer_.bias);
    for (const LogitElementwiseOperation& step : steps_) logits = forward(step, logits);
    dtypes_.push_back(logits.scalar_type());
    logits = logits.to(at::kFloat);
    log_probabilities_ = at::_log_softmax(logits, 1, /*half_to_float=*/false);
  }

  at::Tensor loss_sum() const {
    return std::get<0>(at::nll_loss_forward(log_probabilities_, labels_, {}, at::Reduction::Sum, kIgnoredLabel));
  }

  // Adds the gradient of `scale` times the sum to `to`; hidden's rows start at `begin`. Consumes the results of the
  // forward.
  void backward(const at::Tensor& scale, int64_t begin, Gradients& to) {
    const at::Tensor gradient = of_layer(scale);
    if (to.hidden.defined()) {
      at::Tensor rows = to.hidden.narrow(0, begin, hidden_.size(0));
      at::mm_out(rows, gradient, layer_.weight);
    }
    if (to.weight.defined()) to.weight.addmm_(gradient.t(), hidden_);
    if (to.bias.defined()) to.bias.add_(gradient.sum(0));
  }

 private:
  at::Tensor forward(const LogitElementwiseOperation& step, const at::Tensor& x) {
    dtypes_.push_back(x.scalar_type());
    if (step.kind == StepKind::multiply) return x.mul(step.factor);
    if (step.kind == StepKind::divide) return x.div(step.factor);
    if (step.kind == StepKind::to_float) return x.to(at::kFloat);
    return tanhs_.emplace_back(x.tanh());
  }

  at::Tensor backward(const LogitElementwiseOperation& step, const at::Tensor& gradient) {
    if (step.kind == StepKind::multiply) return gradient.mul(step.factor);
    if (step.kind == StepKind::divide) return gradient.div(step.factor);
    if (step.kind == StepKind::to_float) return gradient;
    const at::Tensor result = at::tanh_backward(gradient, tanhs_.back());
    tanhs_.pop_back();
    return result;
  }

  // (softmax - one_hot(label)) * scale, in the memory of the log probabilities. 0 for ignored labels.
  at::Tensor of_loss(const at::Tensor& scale) {
    at::Tensor gradient = std::move(log_probabilities_).exp_();
    const at::Tensor scales = at::where(labels_.ne(kIgnoredLabel), scale, at::Scalar(0)).unsqueeze(1);
    const at::Tensor at_labels = labels_.clamp_min(0).unsqueeze(1);
    gradient.mul_(scales);
    gradient.scatter_(1, at_labels, gradient.gather(1, at_labels).sub_(scales));
    return gradient;
  }

  at::Tensor of_layer(const at::Tensor& scale) {
    at::Tensor gradient = of_loss(scale).to(dtypes_.back());
    for (size_t i = steps_.size(); i-- > 0;) gradient = backward(steps_[i], gradient).to(dtypes_[i]);
    return gradient;
  }

  at::Tensor hidden_;
  const Layer& layer_;
  at::Tensor labels_;
  const std::vector<LogitElementwiseOperation>& steps_;
  std::vector<at::ScalarType> dtypes_;  // input dtype of each step, then of the loss
  std::vector<at::Tensor> tanhs_;
  at::Tensor log_probabilities_;
};

template <typename Visit>
void for_each_chunk(const at::Tensor& hidden, const Layer& layer, const at::Tensor& labels,
                    const LinearCrossEntropyOptions& how, const Visit& visit) {
  const int64_t tokens = hidden.size(0);
  const int64_t rows = how.chunks > 0 ? std::max<int64_t>(1, divided_up(tokens, how.chunks))
                                      : fused_chunk_rows(tokens, layer.weight.size(1), layer.weight.size(0));
  for (int64_t begin = 0; begin < tokens; begin += rows) {
    const int64_t count = std::min(rows, tokens - begin);
    Chunk chunk(hidden.narrow(0, begin, count), layer, labels.narrow(0, begin, count), how.steps);
    visit(chunk, begin);
  }
}

at::Tensor counted(const at::Tensor& labels) { return labels.ne(kIgnoredLabel).sum().to(at::kFloat); }

struct How : torch::CustomClassHolder {
  explicit How(LinearCrossEntropyOptions how) : value(std::move(how)) {}
  LinearCrossEntropyOptions value;
};

class Node : public torch::autograd::Function<Node> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                            const std::optional<at::Tensor>& given_bias, const at::Tensor& labels,
                            const LinearCrossEntropyOptions& how, bool differentiated) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    const Layer layer{weight, bias};
    const bool fused = differentiated && how.chunks == 0;
    const at::Tensor total = counted(labels), scale = total.reciprocal();
    Gradients gradients;
    if (fused)
      gradients = make_gradients(
          hidden, layer, {hidden.requires_grad(), weight.requires_grad(), bias.defined() && bias.requires_grad()});
    at::Tensor sum = at::zeros({}, hidden.options().dtype(at::kFloat));
    for_each_chunk(hidden, layer, labels, how, [&](Chunk& chunk, int64_t begin) {
      sum.add_(chunk.loss_sum());
      if (fused) chunk.backward(scale, begin, gradients);
    });
    context->saved_data["fused"] = fused;
    if (fused) {
      context->save_for_backward({gradients.hidden, gradients.weight, gradients.bias});
    } else {
      context->save_for_backward({hidden, weight, bias, labels, total});
      context->saved_data["how"] = c10::IValue::make_capsule(c10::make_intrusive<How>(how));
    }
    return sum.div_(total);
  }

  static variable_list backward(AutogradContext* context, const variable_list& outer) {
    Gradients result =
        context->saved_data["fused"].toBool() ? scaled(*context, outer[0]) : computed(*context, outer[0]);
    return {result.hidden, result.weight, result.bias, {}, {}, {}};
  }

 private:
  static Gradients scaled(AutogradContext& context, const at::Tensor& outer) {
    const variable_list saved = context.get_saved_variables();
    Gradients result{saved[0], saved[1], saved[2]};
    for (at::Tensor* gradient : {&result.hidden, &result.weight, &result.bias})
      if (gradient->defined()) gradient->mul_(outer);
    return result;
  }

  static Gradients computed(AutogradContext& context, const at::Tensor& outer) {
    const variable_list saved = context.get_saved_variables();
    const at::Tensor &hidden = saved[0], &labels = saved[3];
    const Layer layer{saved[1], saved[2]};
    const auto how = c10::static_intrusive_pointer_cast<How>(context.saved_data["how"].toCapsule());
    Gradients result = make_gradients(hidden, layer,
                                      {context.needs_input_grad(0), context.needs_input_grad(1),
                                       layer.bias.defined() && context.needs_input_grad(2)});
    const at::Tensor scale = outer / saved[4];
    for_each_chunk(hidden, layer, labels, how->value,
                   [&](Chunk& chunk, int64_t begin) { chunk.backward(scale, begin, result); });
    return result;
  }
};

// Casts as autocast does for a linear layer.
at::Tensor cast(const at::Tensor& tensor, c10::DeviceType device) {
  if (device == c10::kMeta) return meta_autocast_cast(tensor);
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device);
}

}  // namespace

int64_t fused_chunk_rows(int64_t tokens, int64_t width, int64_t vocabulary) {
  const int64_t parts = divided_up(vocabulary, width);
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, divided_up(tokens, parts)))));
}

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const at::Tensor& labels,
                                const LinearCrossEntropyOptions& how) {
  const c10::DeviceType device = hidden.device().type();
  const bool differentiated = at::GradMode::is_enabled();
  if (!AutocastState::now(device).enabled) return Node::apply(hidden, weight, bias, labels, how, differentiated);
  const at::Tensor x = cast(hidden, device), w = cast(weight, device);
  const std::optional<at::Tensor> b = bias ? std::optional(cast(*bias, device)) : std::nullopt;
  const AutocastScope off(device, {false, w.scalar_type()});
  return Node::apply(x, w, b, labels, how, differentiated);
}

}  // namespace memtune::ops
