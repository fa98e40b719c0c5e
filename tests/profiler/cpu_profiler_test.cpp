// Reports compute overlap from these events. Compute, waits and copies must be where they happened and nowhere else.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "core/measure/profiler/device_activity_profiler.h"
#include "tests/device/gate.h"
#include "tests/support/cpu_emulated_device.h"

namespace memtune::cpu_profiler_test {

using namespace memtune;
using device::CopyDirection;
using device::StreamKind;
using trace::EventKind;

namespace {

std::vector<trace::TraceEvent> of_kind(const trace::Trace& trace, EventKind kind) {
  std::vector<trace::TraceEvent> events;
  for (const auto& event : trace.events) {
    if (event.kind == kind) events.push_back(event);
  }
  return events;
}

std::string track_of(const trace::Trace& trace, const trace::TraceEvent& event) {
  return to_string(trace.tracks.at(event.track));
}

}  // namespace

TEST_CASE("a trace without copies is one event of compute") {
  device::CpuEmulatedDevice device(tests::no_tensors());
  const auto profiler = profiler::make_profiler(device);
  trace::Trace trace;
  profiler->start();
  const int64_t before = profiler->now_ns();
  profiler->finish(trace);
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.events[0].kind == EventKind::kernel);
  CHECK(track_of(trace, trace.events[0]) == "compute");
  CHECK(trace.names.at(trace.events[0].name) == "compute");
  CHECK(trace.events[0].start_ns == 0);
  CHECK(trace.events[0].end_ns >= before);
  CHECK(trace.lost_records == 0);
}

TEST_CASE("a wait splits compute in two events and copies have their own tracks") {
  device::CpuEmulatedDevice device(tests::no_tensors());
  const auto gate = std::make_shared<testing::Gate>();
  const auto profiler = profiler::make_profiler(device);
  std::string device_bytes(1000, 'a'), host_bytes(1000, '.');
  trace::Trace trace;
  profiler->start();
  device.wait(StreamKind::out, gate);
  device.copy(host_bytes.data(), device_bytes.data(), 1000, CopyDirection::to_host, StreamKind::out);
  device.wait(StreamKind::in, device.record(StreamKind::out));
  device.copy(device_bytes.data(), host_bytes.data(), 500, CopyDirection::to_device, StreamKind::in);
  const auto back = device.record(StreamKind::in);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate->open();
  });
  device.wait(StreamKind::compute, back);
  opener.join();
  profiler->finish(trace);

  const auto waits = of_kind(trace, EventKind::wait), computes = of_kind(trace, EventKind::kernel);
  REQUIRE(waits.size() == 1);
  REQUIRE(computes.size() == 2);
  CHECK(track_of(trace, waits[0]) == "compute");
  CHECK(waits[0].end_ns - waits[0].start_ns > 10'000'000);
  CHECK(computes[0].end_ns == waits[0].start_ns);
  CHECK(computes[1].start_ns == waits[0].end_ns);

  const auto outs = of_kind(trace, EventKind::copy_out), ins = of_kind(trace, EventKind::copy_in);
  REQUIRE(outs.size() == 1);
  REQUIRE(ins.size() == 1);
  CHECK(track_of(trace, outs[0]) == "copy out");
  CHECK(outs[0].bytes == 1000);
  CHECK(track_of(trace, ins[0]) == "copy in");
  CHECK(ins[0].bytes == 500);
  CHECK(outs[0].end_ns <= ins[0].start_ns);
  CHECK(ins[0].end_ns <= waits[0].end_ns);
}

TEST_CASE("a copy on the compute stream does not count as compute") {
  device::CpuEmulatedDevice device(tests::no_tensors());
  const auto profiler = profiler::make_profiler(device);
  std::string from(8 << 20, 'a'), to(8 << 20, '.');
  trace::Trace trace;
  profiler->start();
  device.copy(to.data(), from.data(), 8 << 20, CopyDirection::to_host, StreamKind::compute);
  profiler->finish(trace);
  const auto copies = of_kind(trace, EventKind::copy_out);
  REQUIRE(copies.size() == 1);
  CHECK(track_of(trace, copies[0]) == "compute");
  for (const auto& compute : of_kind(trace, EventKind::kernel)) {
    CHECK((compute.end_ns <= copies[0].start_ns || compute.start_ns >= copies[0].end_ns));
  }
}

TEST_CASE("a second trace starts at 0 again and has no events of the first") {
  device::CpuEmulatedDevice device(tests::no_tensors());
  const auto profiler = profiler::make_profiler(device);
  std::string from = "abcd", to = "....";
  trace::Trace first, second;
  profiler->start();
  device.copy(to.data(), from.data(), 4, CopyDirection::to_host, StreamKind::out);
  profiler->finish(first);
  CHECK(of_kind(first, EventKind::copy_out).size() == 1);
  profiler->start();
  profiler->finish(second);
  CHECK(of_kind(second, EventKind::copy_out).empty());
  CHECK(second.events.front().start_ns == 0);
}

TEST_CASE("probing an emulated device measures memcpy bandwidth and leaves no memory behind") {
  device::CpuEmulatedDevice device(tests::no_tensors());
  const int64_t before = device.memory().allocated;
  const auto link = profiler::probe_link(device);
  CHECK(link.out_gb_per_s > 0.05);
  CHECK(link.in_gb_per_s > 0.05);
  CHECK(device.memory().allocated == before);
}

}  // namespace memtune::cpu_profiler_test
