// Autocast settings as a plain value, and a scope that sets them for its lifetime. Those of the meta device are
// memtune's own (meta_autocast.h). LibTorch caches cast weights until
// the outermost autocast scope ends. `cached = false` turns the cache off.
#pragma once

#include <ATen/autocast_mode.h>

namespace memtune::ops {

struct AutocastState {
  bool enabled = false;
  at::ScalarType dtype = at::kFloat;
  bool cached = true;

  static AutocastState now(c10::DeviceType device);
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
