#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/torch/make_device.h"

int main(int argc, char** argv) {
  try {
    memtune::device::make_device("cuda");
  } catch (const memtune::DeviceError& error) {
    std::cout << "skipped: " << error.what() << "\n";
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
