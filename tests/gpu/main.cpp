#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>

#include "core/base/device/device.h"
#include "core/base/device/torch/make_device.h"
#include "core/base/error.h"
#include "tests/support/run_cases.h"

int main(int argc, char** argv) {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // deterministic cuBLAS, as in trials
  try {
    memtune::device::make_device("cuda");
  } catch (const memtune::DeviceError& error) {
    std::cout << "skipped: " << error.what() << "\n";
    return 77;
  }
  return memtune::tests::run_cases(argc, argv);
}
