#include "core/measure/trial/deterministic_scope.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <cstring>

namespace memtune::trial {

void DeterministicScope::set(bool on, bool errors) {
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/!errors);
}

bool lacks_deterministic_kernel(const std::exception& error) {
  return !dynamic_cast<const c10::OutOfMemoryError*>(&error) && dynamic_cast<const c10::Error*>(&error) &&
         std::strstr(error.what(), "deterministic");
}

bool has_deterministic_kernels(ForwardBackwardRunner& runner) {
  const DeterministicScope scope(true);
  try {
    runner.untouched_step();
    runner.drop_gradients();
    return true;
  } catch (const c10::Error& error) {
    runner.drop_gradients();
    if (!lacks_deterministic_kernel(error)) throw;
    return false;
  }
}

}  // namespace memtune::trial
