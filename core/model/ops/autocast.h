// Autocast settings as a plain value, and a scope that sets them for its lifetime. LibTorch caches cast weights until
// the outermost autocast scope ends. `cached = false` turns the cache off.
#pragma once

#include <ATen/autocast_mode.h>

namespace memtune::ops {

struct AutocastState {
  bool enabled = false;
  at::ScalarType dtype = at::kFloat;
  bool cached = true;

  // The meta device has no autocast.
  static AutocastState now(c10::DeviceType device) {
    if (device == c10::kMeta) return {};
    return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device),
            at::autocast::is_autocast_cache_enabled()};
  }
};

class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, const AutocastState& state);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  void set(const AutocastState& state);

  c10::DeviceType device_;
  AutocastState before_;
};

}  // namespace memtune::ops
