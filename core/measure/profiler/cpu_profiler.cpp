#include "core/measure/profiler/cpu_profiler.h"

#include <algorithm>
#include <vector>

namespace memtune::profiler {
namespace {

using device::EmulatedStreamActivityRecord;
using device::StreamKind;

// Tags of the device count from 1.
uint32_t number_of(trace::ValueId value) { return value ? static_cast<uint32_t>(value.index()) + 1 : 0; }
trace::ValueId value_of(uint32_t number) { return number > 0 ? trace::ValueId(number - 1) : trace::ValueId(); }

trace::Track track_of(StreamKind stream) {
  if (stream == StreamKind::compute) return {trace::TrackRole::compute};
  return {stream == StreamKind::out ? trace::TrackRole::copy_out : trace::TrackRole::copy_in};
}

class CpuProfiler final : public DeviceActivityProfiler {
 public:
  explicit CpuProfiler(device::CpuEmulatedDevice& device) : device_(device) {}

  void start() override {
    device_.synchronize();
    device_.start_recording();
    start_ns_ = device::activity_clock();
  }
  int64_t now_ns() const override { return device::activity_clock() - start_ns_; }
  void tag_part(uint32_t) override {}  // not needed: host and device have one clock
  void tag_value(trace::ValueId value) override { device_.tag_copies(number_of(value)); }
  std::vector<uint32_t> finish(trace::Trace& trace) override;

 private:
  void add(trace::Trace& trace, const EmulatedStreamActivityRecord& activity) const;
  void add_compute(trace::Trace& trace, int64_t start_ns, int64_t end_ns) const;

  device::CpuEmulatedDevice& device_;
  int64_t start_ns_ = 0;
};

std::vector<uint32_t> CpuProfiler::finish(trace::Trace& trace) {
  const int64_t end = device::activity_clock();
  const size_t first = trace.events.size();
  device_.synchronize();
  int64_t lost = 0;
  auto activities = device_.stop_recording(lost);
  trace.lost_records += lost;
  // This function's own wait for the last copies delays nothing.
  std::erase_if(activities, [&](const EmulatedStreamActivityRecord& activity) {
    return activity.kind == EmulatedStreamActivityRecord::Kind::wait && activity.start_ns >= end;
  });
  std::stable_sort(activities.begin(), activities.end(),
                   [](const EmulatedStreamActivityRecord& a, const EmulatedStreamActivityRecord& b) {
                     return a.start_ns < b.start_ns;
                   });
  for (const StreamKind stream : {StreamKind::compute, StreamKind::out, StreamKind::in}) trace.track(track_of(stream));
  int64_t compute_from = start_ns_;
  for (const auto& activity : activities) {
    if (activity.stream == StreamKind::compute) {
      add_compute(trace, compute_from, activity.start_ns);
      compute_from = activity.end_ns;
    }
    add(trace, activity);
  }
  add_compute(trace, compute_from, end);
  return std::vector<uint32_t>(trace.events.size() - first, 0);  // host and device have one clock
}

void CpuProfiler::add(trace::Trace& trace, const EmulatedStreamActivityRecord& activity) const {
  const auto kind = activity.kind == EmulatedStreamActivityRecord::Kind::wait       ? trace::EventKind::wait
                    : activity.kind == EmulatedStreamActivityRecord::Kind::copy_out ? trace::EventKind::copy_out
                                                                                    : trace::EventKind::copy_in;
  trace::TraceEvent event;
  event.kind = kind;
  event.track = trace.track(track_of(activity.stream));
  event.name = trace.name(trace::to_string(kind));
  event.start_ns = activity.start_ns - start_ns_;
  event.end_ns = activity.end_ns - start_ns_;
  event.bytes = activity.bytes;
  event.value = value_of(activity.tag);
  trace.events.push_back(event);
}

void CpuProfiler::add_compute(trace::Trace& trace, int64_t start_ns, int64_t end_ns) const {
  if (end_ns <= start_ns) return;
  trace::TraceEvent event;
  event.kind = trace::EventKind::kernel;
  event.track = trace.track(track_of(StreamKind::compute));
  event.name = trace.name("compute");
  event.start_ns = start_ns - start_ns_;
  event.end_ns = end_ns - start_ns_;
  trace.events.push_back(event);
}

}  // namespace

std::unique_ptr<DeviceActivityProfiler> make_cpu_profiler(device::CpuEmulatedDevice& device) {
  return std::make_unique<CpuProfiler>(device);
}

}  // namespace memtune::profiler
