// Selects kernels whose result does not depend on the order of atomic operations.
#pragma once

#include "core/measure/trial/forward_backward_runner.h"

namespace memtune::trial {

// In effect while it exists. Fresh memory stays uninitialized; LibTorch would fill it with NaN.
class DeterministicScope {
 public:
  // `errors`: an op without such a kernel throws c10::Error, which lacks_deterministic_kernel() recognizes. Attention
  // uses its own only then.
  explicit DeterministicScope(bool errors) { set(true, errors); }
  ~DeterministicScope() { set(false, false); }
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  static void set(bool on, bool errors);
};

// True if an op threw it for lack of such a kernel.
bool lacks_deterministic_kernel(const std::exception& error);

// True if every op of a step has such a kernel. Runs one and restores everything.
bool has_deterministic_kernels(ForwardBackwardRunner& runner);

}  // namespace memtune::trial
