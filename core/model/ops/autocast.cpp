#include "core/model/ops/autocast.h"

#include <ATen/Operators.h>
#include <torch/library.h>

#include "core/model/ops/meta_autocast.h"

namespace memtune::ops {

AutocastState AutocastState::now(c10::DeviceType device) {
  if (device == c10::kMeta) return meta_autocast();
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device),
          at::autocast::is_autocast_cache_enabled()};
}

AutocastScope::AutocastScope(c10::DeviceType device, const AutocastState& state)
    : device_(device), before_(AutocastState::now(device)) {
  set(state);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
    clear_meta_autocast_cache();
  }
  set(before_);
}

void AutocastScope::set(const AutocastState& state) {
  if (device_ == c10::kMeta) return set_meta_autocast(state);
  at::autocast::set_autocast_enabled(device_, state.enabled);
  at::autocast::set_autocast_dtype(device_, state.dtype);
  at::autocast::set_autocast_cache_enabled(state.cached);
}

}  // namespace memtune::ops

// Traces and exported programs call convolution and _convolution directly. On a CPU LibTorch registers autocast only
// for the functions that Python calls (conv1d, ...). TorchScript's own executor inserts these casts into the graph
// instead.
TORCH_LIBRARY_IMPL(aten, AutocastCPU, m) {
  KERNEL_CPU(_convolution, lower_precision_fp)
  KERNEL_CPU(convolution, lower_precision_fp)
}
