// The engine that answers for saved-tensor hooks has to be set before anything touches autograd, as in memtune-trial.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include "core/engine/autograd/hooks.h"
#include "tests/support/run_cases.h"

int main(int argc, char** argv) {
  memtune::autograd::install_engine();
  torch::jit::getProfilingMode() = false;  // what is compared with: TorchScript as it is, not fused
  return memtune::tests::run_cases(argc, argv);
}
