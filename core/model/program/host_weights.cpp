#include "core/model/program/host_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>

#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/limits.h"

namespace memtune::program {

void HostWeights::move(const at::Tensor& parameter) {
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
  c10::StorageImpl* storage = parameter.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, parameter.device()));
  storage->set_nbytes(0);
}

void HostWeights::restore(const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  if (!bytes_.contains(parameter.unsafeGetTensorImpl())) return;
  const at::Tensor bytes = take(parameter);
  const size_t needed = static_cast<size_t>(parameter.storage_offset()) * parameter.element_size() + bytes.nbytes();
  c10::StorageImpl* storage = parameter.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::GetAllocator(parameter.device().type())->allocate(needed));
  storage->set_nbytes(needed);
  parameter.detach().copy_(bytes);
}

at::Tensor HostWeights::take(const at::Tensor& parameter) {
  const auto found = bytes_.find(parameter.unsafeGetTensorImpl());
  if (found == bytes_.end()) return parameter;
  at::Tensor bytes = std::move(found->second);
  bytes_.erase(found);
  return bytes;
}

}  // namespace memtune::program
