// Tests of the engines' synchronization use this device. Its streams must really run concurrently with the caller and
// really wait.
#include "core/base/device/cpu_emulated_device.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/device/gate.h"
#include "tests/support/cpu_emulated_device.h"

namespace memtune::cpu_device_test {

using namespace memtune::device;
using memtune::testing::Gate;
using memtune::tests::no_tensors;

namespace {

void copy_out(Device& device, std::string& to, const std::string& from, StreamKind stream = StreamKind::out) {
  device.copy(to.data(), from.data(), static_cast<int64_t>(from.size()), CopyDirection::to_host, stream);
}

}  // namespace

TEST_CASE("a copy on a side stream runs concurrently with the caller") {
  CpuEmulatedDevice device(no_tensors());
  auto gate = std::make_shared<Gate>();
  std::string from = "abcd", to = "....";
  device.wait(StreamKind::out, gate);
  copy_out(device, to, from);
  const auto copied = device.record(StreamKind::out);
  CHECK_FALSE(copied->done());  // the copy did not block the caller
  CHECK(to == "....");
  gate->open();
  copied->synchronize();
  CHECK(copied->done());
  CHECK(to == "abcd");
}

TEST_CASE("a source that is overwritten too early gives a wrong copy as on a real device") {
  CpuEmulatedDevice device(no_tensors());
  auto gate = std::make_shared<Gate>();
  std::string from = "abcd", to = "....";
  device.wait(StreamKind::out, gate);
  copy_out(device, to, from);
  from = "XXXX";
  gate->open();
  device.synchronize();
  CHECK(to == "XXXX");
}

TEST_CASE("one stream waits for an event of another") {
  CpuEmulatedDevice device(no_tensors());
  auto gate = std::make_shared<Gate>();
  std::string first = "abcd", host = "....", second = "....";
  device.wait(StreamKind::out, gate);
  copy_out(device, host, first);
  device.wait(StreamKind::in, device.record(StreamKind::out));
  device.copy(second.data(), host.data(), 4, CopyDirection::to_device, StreamKind::in);
  const auto arrived = device.record(StreamKind::in);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK_FALSE(arrived->done());
  gate->open();
  arrived->synchronize();
  CHECK(second == "abcd");
}

TEST_CASE("the compute stream blocks until the event is reached") {
  CpuEmulatedDevice device(no_tensors());
  auto gate = std::make_shared<Gate>();
  std::atomic<bool> opened{false};
  device.wait(StreamKind::out, gate);
  const auto event = device.record(StreamKind::out);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    opened = true;
    gate->open();
  });
  device.wait(StreamKind::compute, event);
  CHECK(opened);
  opener.join();
}

TEST_CASE("copies on the compute stream are synchronous and its events are done at once") {
  CpuEmulatedDevice device(no_tensors());
  std::string from = "abcd", to = "....";
  copy_out(device, to, from, StreamKind::compute);
  CHECK(to == "abcd");
  CHECK(device.record(StreamKind::compute)->done());
}

TEST_CASE("the destructor finishes all copies and events outlive the device") {
  std::string from(1 << 20, 'a'), to(1 << 20, '.');
  EventPtr event;
  {
    CpuEmulatedDevice device(no_tensors());
    for (int i = 0; i < 20; ++i) copy_out(device, to, from);
    event = device.record(StreamKind::out);
  }
  CHECK(event->done());
  event->synchronize();
  CHECK(to == from);
}

TEST_CASE("an empty copy is no error") {
  CpuEmulatedDevice device(no_tensors());
  device.copy(nullptr, nullptr, 0, CopyDirection::to_host, StreamKind::out);
  device.copy(nullptr, nullptr, 0, CopyDirection::to_device, StreamKind::compute);
  device.synchronize();
}

TEST_CASE("activities are recorded only between start and stop") {
  CpuEmulatedDevice device(no_tensors());
  auto gate = std::make_shared<Gate>();
  std::string from = "abcd", to = "....";
  int64_t lost = -1;
  copy_out(device, to, from);
  device.synchronize();

  device.start_recording();
  device.wait(StreamKind::out, gate);
  copy_out(device, to, from);
  const auto copied = device.record(StreamKind::out);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate->open();
  });
  device.wait(StreamKind::compute, copied);
  device.wait(StreamKind::compute, copied);  // already reached: no wait
  opener.join();
  const auto activities = device.stop_recording(lost);

  CHECK(lost == 0);
  REQUIRE(activities.size() == 2);
  const auto& copy = activities[0];
  CHECK(copy.kind == EmulatedStreamActivityRecord::Kind::copy_out);
  CHECK(copy.stream == StreamKind::out);
  CHECK(copy.bytes == 4);
  const auto& wait = activities[1];
  CHECK(wait.kind == EmulatedStreamActivityRecord::Kind::wait);
  CHECK(wait.stream == StreamKind::compute);
  CHECK(wait.end_ns - wait.start_ns > 10'000'000);
  CHECK(wait.end_ns >= copy.end_ns);

  copy_out(device, to, from);
  device.synchronize();
  CHECK(device.stop_recording(lost).empty());
}

TEST_CASE("host slabs are page-aligned even with odd sizes or zero bytes") {
  CpuEmulatedDevice device(no_tensors());
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4097}, int64_t{1} << 20}) {
    const auto slab = device.allocate_host(bytes);
    CHECK(slab->bytes() == bytes);
    CHECK(reinterpret_cast<uintptr_t>(slab->data()) % 4096 == 0);
  }
}

TEST_CASE("memory statistics come from the counter and a cap limits it") {
  CappedMemoryCounter memory;
  CpuEmulatedDevice device(memory);
  REQUIRE(memory.take(1024));
  memory.deallocate(24);
  const AllocatorStats use = device.memory();
  CHECK(use.allocated == 1000);
  CHECK(use.peak_allocated == 1024);
  CHECK(use.reserved == use.allocated);
  CHECK(use.peak_reserved == use.peak_allocated);
  CHECK(device.used_bytes() == 0);
  const auto slab = device.allocate_host(1 << 20);  // host memory does not count
  CHECK(device.memory().allocated == 1000);
  device.reset_peak();
  CHECK(device.memory().peak_allocated == 1000);

  device.set_cap(1100);
  CHECK_FALSE(memory.take(101));
  device.set_cap(0);
  CHECK(memory.take(101));
}

TEST_CASE("the CPU device reports that it is an emulation and names the CPU") {
  CpuEmulatedDevice device(no_tensors());
  CHECK(device.emulated());
  CHECK(device.type() == Device::Type::cpu);
  CHECK(device.name().rfind("CPU (", 0) == 0);
  CHECK(device.total_bytes() > (int64_t{64} << 20));
}

}  // namespace memtune::cpu_device_test
