// Users type the device's name. Errors must name the valid ones.
#include "core/base/device/torch/make_device.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/base/device/torch/torch_device.h"
#include "core/base/error.h"

namespace memtune::make_device_test {

using memtune::UsageError;
using memtune::device::make_device;

TEST_CASE("invalid device names are rejected with a hint") {
  CHECK_THROWS_WITH_AS(make_device(""), doctest::Contains("unknown device ''"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cudas"), doctest::Contains("did you mean 'cuda'"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cuda:x"), doctest::Contains("device 'cuda:x'"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cuda:-1"), doctest::Contains("unknown device 'cuda:-1'"), UsageError);
  CHECK_THROWS_WITH_AS(make_device("cuda:"), doctest::Contains("device 'cuda:'"), UsageError);
}

TEST_CASE("a process can use only the first device it makes") {
  CHECK(make_device("cpu")->emulated());
  CHECK(make_device("cpu")->emulated());
  CHECK_THROWS_WITH_AS(make_device("cuda"), "device 'cuda': this process already uses 'cpu'; it takes another process",
                       UsageError);
}

TEST_CASE("the CPU device counts the memory of LibTorch tensors and caps it") {
  const auto device = make_device("cpu");
  CHECK(torch_device(*device) == c10::Device(c10::kCPU));
  device->reset_peak();
  const int64_t before = device->memory().allocated;
  const auto tensor = at::empty({256}, at::kFloat);
  CHECK(device->memory().allocated - before == 1024);
  CHECK(device->memory().peak_allocated - before == 1024);
  device->set_cap(before + 1024 + 100);
  CHECK_THROWS_AS(at::empty({101}, at::kByte), c10::OutOfMemoryError);
  device->set_cap(0);
  CHECK(at::empty({101}, at::kByte).numel() == 101);
}

}  // namespace memtune::make_device_test
