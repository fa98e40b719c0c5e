// Overlap is computed from CUPTI's records. A kernel and both copies must appear with their bytes and in order.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <string>

#include "core/base/device/device.h"
#include "core/base/device/torch/make_device.h"
#include "core/base/device/torch/torch_device.h"
#include "core/measure/profiler/device_activity_profiler.h"
#include "core/measure/profiler/doctor.h"

using namespace memtune;
using namespace memtune::device;
using trace::EventKind;

namespace {

constexpr int64_t kBytes = int64_t{8} << 20;
constexpr int64_t kClockSlack = 100'000;  // ns, the tolerance between the clocks of device and host

std::vector<trace::TraceEvent> of_kind(const trace::Trace& trace, EventKind kind) {
  std::vector<trace::TraceEvent> events;
  for (const auto& event : trace.events) {
    if (event.kind == kind) events.push_back(event);
  }
  return events;
}

bool on_stream(const trace::Trace& trace, const trace::TraceEvent& event, trace::TrackRole role) {
  return trace.tracks.at(event.track).role == role && trace.tracks.at(event.track).stream >= 0;
}

}  // namespace

TEST_CASE("a kernel and both copies are traced with their bytes in each of two recordings") {
  const auto device = make_device("cuda");
  const auto slab = device->allocate_host(kBytes);
  auto tensor = at::ones({kBytes / 4}, at::TensorOptions(at::kFloat).device(torch_device(*device)));
  tensor.add_(1);  // loads the kernel first, because loading may copy
  const auto profiler = profiler::make_profiler(*device);
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    trace::Trace trace;
    profiler->start();
    tensor.add_(1);
    device->wait(StreamKind::out, device->record(StreamKind::compute));
    device->copy(slab->data(), tensor.data_ptr(), kBytes, CopyDirection::to_host, StreamKind::out);
    device->wait(StreamKind::in, device->record(StreamKind::out));
    device->copy(tensor.data_ptr(), slab->data(), kBytes, CopyDirection::to_device, StreamKind::in);
    device->synchronize();
    const int64_t end = profiler->now_ns();
    profiler->finish(trace);

    CHECK(trace.lost_records == 0);
    const auto kernels = of_kind(trace, EventKind::kernel), outs = of_kind(trace, EventKind::copy_out),
               ins = of_kind(trace, EventKind::copy_in);
    REQUIRE(kernels.size() == 1);
    REQUIRE(outs.size() == 1);
    REQUIRE(ins.size() == 1);
    CHECK(on_stream(trace, kernels[0], trace::TrackRole::compute));
    CHECK(trace.names.at(kernels[0].name).find("elementwise") != std::string::npos);
    CHECK(on_stream(trace, outs[0], trace::TrackRole::copy_out));
    CHECK(outs[0].bytes == kBytes);
    CHECK_FALSE(outs[0].pageable);
    CHECK(on_stream(trace, ins[0], trace::TrackRole::copy_in));
    CHECK(ins[0].bytes == kBytes);

    CHECK(kernels[0].start_ns >= -kClockSlack);
    CHECK(kernels[0].start_ns < kernels[0].end_ns);
    CHECK(kernels[0].end_ns <= outs[0].start_ns);
    CHECK(outs[0].end_ns <= ins[0].start_ns);
    CHECK(ins[0].end_ns <= end + kClockSlack);
  }
}

TEST_CASE("kernels are tagged with the part of the model and copies with their tensor") {
  const auto device = make_device("cuda");
  const auto slab = device->allocate_host(kBytes);
  auto tensor = at::ones({kBytes / 4}, at::TensorOptions(at::kFloat).device(torch_device(*device)));
  auto square = at::ones({64, 64}, tensor.options());
  at::mm(square, square);  // loads kernels that the driver launches
  tensor.add_(1);
  const auto profiler = profiler::make_profiler(*device);
  trace::Trace trace;
  profiler->start();
  profiler->tag_part(7);
  tensor.add_(1);
  profiler->tag_part(9);
  at::mm(square, square);
  profiler->tag_value(trace::ValueId(3));
  device->copy(slab->data(), tensor.data_ptr(), kBytes, CopyDirection::to_host, StreamKind::out);
  profiler->tag_value({});
  device->copy(tensor.data_ptr(), slab->data(), kBytes, CopyDirection::to_device, StreamKind::in);
  profiler->tag_part(0);
  tensor.add_(1);
  const auto parts = profiler->finish(trace);
  REQUIRE(parts.size() == trace.events.size());
  std::vector<uint32_t> kernels;
  for (size_t i = 0; i < parts.size(); ++i) {
    const trace::TraceEvent& event = trace.events[i];
    if (event.kind == EventKind::kernel) kernels.push_back(parts[i]);
    if (event.kind == EventKind::copy_out) CHECK(event.value == trace::ValueId(3));
    if (event.kind == EventKind::copy_in) CHECK_FALSE(event.value);
    if (event.kind == EventKind::copy_out || event.kind == EventKind::copy_in) CHECK(parts[i] == 9);
  }
  REQUIRE(kernels.size() >= 3);
  CHECK(kernels.front() == 7);
  CHECK(kernels[1] == 9);
  CHECK(kernels.back() == 0);
}

TEST_CASE("a copy from pageable memory is marked") {
  const auto device = make_device("cuda");
  const auto profiler = profiler::make_profiler(*device);
  const auto host = at::ones({kBytes}, at::kByte);
  trace::Trace trace;
  profiler->start();
  const auto copy = host.to(torch_device(*device));
  profiler->finish(trace);
  const auto ins = of_kind(trace, EventKind::copy_in);
  REQUIRE_FALSE(ins.empty());
  CHECK(ins[0].pageable);
  CHECK(trace.names.at(ins[0].name) == "copy in, pageable");
}

TEST_CASE("no record is lost among many kernels") {
  const auto device = make_device("cuda");
  const auto profiler = profiler::make_profiler(*device);
  auto tensor = at::ones({16}, at::TensorOptions(torch_device(*device)));
  trace::Trace trace;
  profiler->start();
  for (int i = 0; i < 50'000; ++i) tensor.add_(1);
  profiler->finish(trace);
  CHECK(trace.lost_records == 0);
  CHECK(of_kind(trace, EventKind::kernel).size() == 50'000);
}

TEST_CASE("PCIe bandwidth is measured in both directions and the doctor finds no failure") {
  const auto device = make_device("cuda");
  const auto link = profiler::probe_link(*device);
  MESSAGE(link.out_gb_per_s << " GB/s out, " << link.in_gb_per_s << " GB/s in");
  CHECK(link.out_gb_per_s > 1);
  CHECK(link.in_gb_per_s > 1);
  for (const auto& check : profiler::run_doctor("cuda")) {
    CAPTURE(check.name);
    MESSAGE(check.name << ": " << check.detail);
    CHECK(check.status != profiler::DoctorStatus::fail);
  }
}

TEST_CASE("all GPUs copy at once and the current device of the thread stays") {
  const auto device = make_device("cuda");
  const auto made = device::make_all_cuda_devices();
  CHECK(made.size() == static_cast<size_t>(device::count_cuda_devices()));
  std::vector<device::Device*> devices;
  for (const auto& each : made) {
    CHECK(each->index() == static_cast<int>(devices.size()));
    devices.push_back(each.get());
  }
  const auto links = profiler::probe_links_together(devices);
  REQUIRE(links.size() == made.size());
  for (const auto& link : links) {
    MESSAGE(link.out_gb_per_s << " GB/s out, " << link.in_gb_per_s << " GB/s in");
    CHECK(link.out_gb_per_s > 1);
    CHECK(link.in_gb_per_s > 1);
  }
  CHECK(at::ones({1}, at::kCUDA).device() == torch_device(*device));
}
