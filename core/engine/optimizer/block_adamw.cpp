#include "core/engine/optimizer/block_adamw.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/engine/optimizer/block_update.h"
#include "core/engine/optimizer/fused.h"
#include "core/model/quantized/dynamic_map.h"

namespace memtune::optimizer {
namespace {

using quantized::BlockwiseEightBitCodesAndAbsmax;

constexpr int64_t kMinIn8Bits = 4096, kMinPaged = 100000;  // elements
constexpr int64_t kUpdateElements = int64_t{1} << 24;      // elements updated at a time; limits temporary memory

bool in_blocks(const BlockwiseEightBitCodesAndAbsmax& moment) { return moment.largest.defined(); }

// Pinned memory if the tensor is on CUDA, so that copies need no staging. A meta tensor has no values to copy.
at::Tensor on_host(const at::Tensor& tensor) {
  const at::Tensor host = at::empty(tensor.sizes(), tensor.options().device(c10::kCPU).pinned_memory(tensor.is_cuda()));
  return tensor.is_meta() ? host : host.copy_(tensor);
}

at::Tensor on(c10::Device device, const at::Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); }

// Copies both tensors of a moment to the device.
BlockwiseEightBitCodesAndAbsmax brought(const BlockwiseEightBitCodesAndAbsmax& moment, c10::Device device) {
  return {on(device, moment.bytes), in_blocks(moment) ? on(device, moment.largest) : at::Tensor()};
}

void take_back(const BlockwiseEightBitCodesAndAbsmax& from, const BlockwiseEightBitCodesAndAbsmax& to) {
  if (from.bytes.is_same(to.bytes) || from.bytes.is_meta()) return;
  at::Tensor(to.bytes).copy_(from.bytes, /*non_blocking=*/true);
  if (in_blocks(to)) at::Tensor(to.largest).copy_(from.largest, /*non_blocking=*/true);
}

}  // namespace

BitsandbytesAdamW::BitsandbytesAdamW(const OptimizerSettings& settings, std::vector<at::Tensor> parameters,
                                     bool in_8_bits, bool paged)
    : Optimizer(settings, std::move(parameters)),
      in_8_bits_(in_8_bits),
      paged_(paged),
      embeddings_(settings.embeddings),
      states_(parameters_.size()) {
  if (parameters_.empty() || !in_8_bits_) return;
  const c10::Device device = parameters_[0].device();
  maps_ = {quantized::dynamic_map(true, device), quantized::dynamic_map(false, device)};
}

bool BitsandbytesAdamW::fits_8_bits(const at::Tensor& parameter) const {
  return in_8_bits_ && parameter.numel() >= kMinIn8Bits && !embeddings_.contains(parameter.unsafeGetTensorImpl());
}

void BitsandbytesAdamW::make_state(size_t i) {
  State& state = states_[i];
  if (state.step.defined()) return;
  const at::Tensor& parameter = parameters_[i];
  for (BlockwiseEightBitCodesAndAbsmax* moment : {&state.first, &state.second}) {
    *moment = fits_8_bits(parameter) ? quantized::make_blockwise(parameter.numel(), parameter.device())
                                     : BlockwiseEightBitCodesAndAbsmax{
                                           at::zeros({parameter.numel()}, parameter.options().dtype(at::kFloat)), {}};
    if (!paged_ || parameter.numel() < kMinPaged) continue;
    moment->bytes = on_host(moment->bytes);
    if (in_blocks(*moment)) moment->largest = on_host(moment->largest);
  }
  state.step = at::zeros({}, at::kFloat);
}

std::vector<std::pair<std::string, at::Tensor>> BitsandbytesAdamW::state(size_t i) const {
  const State& state = states_[i];
  if (!state.step.defined()) return {};
  if (!in_blocks(state.first))
    return {{"state1", state.first.bytes}, {"state2", state.second.bytes}, {"step", state.step}};
  return {{"state1", state.first.bytes},
          {"state2", state.second.bytes},
          {"absmax1", state.first.largest},
          {"absmax2", state.second.largest},
          {"step", state.step}};
}

int64_t BitsandbytesAdamW::state_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < states_.size(); ++i)
    for (const auto& [name, tensor] : state(i))
      if (tensor.device() == parameters_[i].device() && name != "step") bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void BitsandbytesAdamW::update(const std::vector<size_t>& parameters) {
  for (const size_t i : parameters) {
    check_dense_and_real(in_8_bits_ ? "adamw in 8 bits" : "adamw with states in 32 bits", parameters_[i]);
    make_state(i);
    states_[i].step += 1;
    update(parameters_[i], states_[i]);
  }
}

void BitsandbytesAdamW::update(const at::Tensor& parameter, const State& state) const {
  const BlockwiseEightBitCodesAndAbsmax first = brought(state.first, parameter.device());
  const BlockwiseEightBitCodesAndAbsmax second = brought(state.second, parameter.device());
  const at::Tensor whole = parameter.contiguous(), values = whole.view(-1);
  const at::Tensor gradient = parameter.grad().contiguous().view(-1);
  const AdamWLearningRateAndStep step{learning_rate_, state.step.item<double>()};
  if (in_blocks(first))
    update_in_blocks(values, gradient, first, second, maps_, step);
  else
    for (int64_t begin = 0; begin < values.numel(); begin += kUpdateElements) {
      const auto some = [begin, count = std::min(kUpdateElements, values.numel() - begin)](const at::Tensor& all) {
        return all.narrow(0, begin, count);
      };
      optimizer::update(some(values), some(gradient), some(first.bytes), some(second.bytes), step);
    }
  take_back(first, state.first);
  take_back(second, state.second);
  if (!whole.is_same(parameter)) at::Tensor(parameter).copy_(whole);
}

}  // namespace memtune::optimizer
