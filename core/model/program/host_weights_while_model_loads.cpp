#include "core/model/program/host_weights_while_model_loads.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "core/base/bytes.h"
#include "core/base/device/torch/storage_bytes.h"
#include "core/base/error.h"
#include "core/base/limits.h"

namespace memtune::program {

void HostWeightsWhileModelLoads::move(const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  const auto [place, is_new] = bytes_.try_emplace(parameter.unsafeGetTensorImpl());
  if (!is_new) return;
  try {
    place->second = at::empty_strided(parameter.sizes(), parameter.strides(), parameter.options().device(at::kCPU));
  } catch (const c10::Error&) {
    throw OutOfHostMemoryError("no host memory for a weight of " +
                               format_bytes(static_cast<int64_t>(parameter.nbytes())) + "; " + memory_limit());
  }
  place->second.copy_(parameter.detach());
  device::free_bytes(parameter);
}

void HostWeightsWhileModelLoads::restore(const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  if (!bytes_.contains(parameter.unsafeGetTensorImpl())) return;
  const at::Tensor bytes = take(parameter);
  const int64_t before = parameter.storage_offset() * static_cast<int64_t>(parameter.element_size());
  device::allocate_bytes(parameter, before + static_cast<int64_t>(bytes.nbytes()));
  parameter.detach().copy_(bytes);
}

at::Tensor HostWeightsWhileModelLoads::take(const at::Tensor& parameter) {
  const auto found = bytes_.find(parameter.unsafeGetTensorImpl());
  if (found == bytes_.end()) return parameter;
  at::Tensor bytes = std::move(found->second);
  bytes_.erase(found);
  return bytes;
}

}  // namespace memtune::program
