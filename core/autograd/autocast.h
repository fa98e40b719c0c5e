// Autocast as a plain value, and in force for as long as a scope lives. Weights that are cast within are cached by
// LibTorch until the outermost scope ends.
#pragma once

#include <ATen/autocast_mode.h>

namespace memtune::autograd {

struct Autocast {
  bool enabled = false;
  at::ScalarType dtype = at::kFloat;

  static Autocast now(c10::DeviceType device) {
    return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
  }
};

class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, const Autocast& state) : device_(device), before_(Autocast::now(device)) {
    set(state);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set(before_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  void set(const Autocast& state) {
    at::autocast::set_autocast_enabled(device_, state.enabled);
    at::autocast::set_autocast_dtype(device_, state.dtype);
  }
  c10::DeviceType device_;
  Autocast before_;
};

}  // namespace memtune::autograd
