// Kernels whose result does not depend on the order of atomics.
#pragma once

#include "core/trial/runner.h"

namespace memtune::trial {

// They are used while it lives; fresh memory is left as it is, which LibTorch would fill with NaN.
class Deterministic {
 public:
  // `errors`: an op that has none throws c10::Error, which lacks_deterministic_kernel() knows. Attention uses its own
  // only then.
  explicit Deterministic(bool errors) { set(true, errors); }
  ~Deterministic() { set(false, false); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  static void set(bool on, bool errors);
};

// Whether an op threw it for the lack of such a kernel.
bool lacks_deterministic_kernel(const std::exception& error);

// Whether every op of a step has such a kernel. Runs one, and leaves everything as it was.
bool has_deterministic_kernels(Runner& runner);

}  // namespace memtune::trial
