#include "core/measure/profiler/link_load_generator.h"

#include <doctest/doctest.h>

#include "tests/support/queue_device.h"

namespace memtune::link_load_generator_test {

using namespace memtune;
using device::CopyDirection;
using device::StreamKind;

namespace {

struct CountingDevice final : tests::QueueDevice {
  CountingDevice() : QueueDevice(Compute::queued) {}
  void copy(void* to, const void* from, int64_t bytes, CopyDirection direction, StreamKind stream) override {
    CHECK((stream == StreamKind::out) == (direction == CopyDirection::to_host));
    moved[direction == CopyDirection::to_host ? 0 : 1] += bytes;
    QueueDevice::copy(to, from, bytes, direction, stream);
  }
  int64_t moved[2] = {0, 0};
};

}  // namespace

TEST_CASE("a PCIe load takes the requested time and copies out in a third of it") {
  CountingDevice device;
  profiler::LinkLoadGenerator load(device, {.out_gb_per_s = 50, .in_gb_per_s = 25}, 300);
  load.start();
  CHECK(double(device.moved[0]) / 50e6 == doctest::Approx(100).epsilon(0.01));
  CHECK(double(device.moved[1]) / 25e6 == doctest::Approx(200).epsilon(0.01));
  CHECK(load.ms() == doctest::Approx(300).epsilon(0.01));
  device.synchronize();
}

TEST_CASE("copies back run after copies out and a short PCIe load still has both") {
  CountingDevice device;
  profiler::LinkLoadGenerator load(device, {.out_gb_per_s = 50, .in_gb_per_s = 50}, 0.001);
  load.start();
  CHECK(device.moved[0] > 0);
  CHECK(device.moved[1] == device.moved[0]);
  CHECK(load.ms() == doctest::Approx(double(device.moved[0]) / 25e6));
  CHECK(!device.idle(StreamKind::in));
  CHECK(!device.done(StreamKind::out));
  device.synchronize();
  CHECK(device.idle(StreamKind::in));
}

}  // namespace memtune::link_load_generator_test
