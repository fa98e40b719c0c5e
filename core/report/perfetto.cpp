#include "core/report/perfetto.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/report/layout.h"

namespace memtune::report {
namespace {

constexpr int kDeviceProcess = 1, kHostProcess = 2;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* category(const trace::Event& event) {
  switch (event.kind) {
    case trace::Kind::kernel: return "kernel";
    case trace::Kind::copy_out:
    case trace::Kind::copy_in:
    case trace::Kind::copy_device: return "gpu_memcpy";
    case trace::Kind::memset: return "gpu_memset";
    case trace::Kind::op: return "cpu_op";
    default: break;
  }
  return "user_annotation";
}

// Nanoseconds as microseconds, exactly: a double would lose digits in long traces.
std::string microseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%s%lld.%03d", ns < 0 ? "-" : "", std::abs(static_cast<long long>(ns / 1000)),
                static_cast<int>(std::abs(ns % 1000)));
  return text;
}

std::string arguments(const trace::Event& event) {
  std::string text;
  if (event.bytes > 0) {
    text = R"("bytes":)" + std::to_string(event.bytes);
    int64_t ns = event.end_ns - event.start_ns;  // bytes a nanosecond are GB a second
    if (ns > 0) text += ",\"memory bandwidth (GB/s)\":" + fixed(double(event.bytes) / double(ns), 3);
  }
  if (event.correlation) text += (text.empty() ? "" : ",") + (R"("correlation":)" + std::to_string(event.correlation));
  return text;
}

// The slices that are open at the moment, outermost first, of one track of the viewer.
class Lane {
 public:
  bool take(const trace::Event& event) {
    while (!open_.empty() && open_.back() <= event.start_ns) open_.pop_back();
    if (!open_.empty() && open_.back() < event.end_ns) return false;  // would stick out of the slice around it
    open_.push_back(event.end_ns);
    return true;
  }

 private:
  std::vector<int64_t> open_;
};

class Writer {
 public:
  explicit Writer(const trace::Trace& trace) : trace_(trace) {
    for (const std::string& name : trace.names) names_.push_back(quoted(name));
  }

  std::string write() {
    text_ = R"({"displayTimeUnit":"ms","otherData":{"producer":"memtune","strategy":)" + quoted(trace_.strategy) +
            R"(,"device":)" + quoted(trace_.device) + R"(,"lost_records":)" + std::to_string(trace_.lost_records) +
            "},\n\"traceEvents\":[";
    meta("process_name", kDeviceProcess, 0, R"("name":)" + quoted(trace_.device.empty() ? "device" : trace_.device));
    meta("process_name", kHostProcess, 0, R"("name":"host")");
    for (uint32_t track = 0; track < trace_.tracks.size(); ++track) put_track(track);
    for (const trace::MemorySample& sample : trace_.memory) put_memory(sample);
    return std::move(text_) + "\n]}\n";
  }

 private:
  void record(const std::string& body) {
    text_ += first_ ? "\n{" : ",\n{";
    text_ += body + "}";
    first_ = false;
  }

  void meta(const char* what, int process, int thread, const std::string& args) {
    record(std::string(R"("ph":"M","name":")") + what + R"(","pid":)" + std::to_string(process) + R"(,"tid":)" +
           std::to_string(thread) + R"(,"args":{)" + args + "}");
  }

  std::vector<const trace::Event*> events_of(uint32_t track) const {
    std::vector<const trace::Event*> events;
    for (const trace::Event& event : trace_.events) {
      if (event.track == track) events.push_back(&event);
    }
    std::stable_sort(events.begin(), events.end(), [](const trace::Event* a, const trace::Event* b) {
      return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->end_ns > b->end_ns;
    });
    return events;
  }

  int open_lane(uint32_t track) {
    int process = trace_.tracks[track].device ? kDeviceProcess : kHostProcess;
    int thread = ++threads_;
    meta("thread_name", process, thread, R"("name":)" + quoted(trace_.tracks[track].name));
    meta("thread_sort_index", process, thread, R"("sort_index":)" + std::to_string(thread));
    return thread;
  }

  void put_track(uint32_t track) {
    std::vector<Lane> lanes(1);
    std::vector<int> threads = {open_lane(track)};
    for (const trace::Event* event : events_of(track)) {
      size_t lane = 0;
      while (!lanes[lane].take(*event)) {
        if (++lane < lanes.size()) continue;
        lanes.emplace_back();
        threads.push_back(open_lane(track));
      }
      put_slice(*event, threads[lane]);
    }
  }

  void put_slice(const trace::Event& event, int thread) {
    int process = trace_.tracks[event.track].device ? kDeviceProcess : kHostProcess;
    record(R"("ph":"X","cat":")" + std::string(category(event)) + R"(","name":)" +
           (event.name < names_.size() ? names_[event.name] : quoted(to_string(event.kind))) + R"(,"pid":)" +
           std::to_string(process) + R"(,"tid":)" + std::to_string(thread) + R"(,"ts":)" +
           microseconds(event.start_ns) + R"(,"dur":)" +
           microseconds(std::max<int64_t>(0, event.end_ns - event.start_ns)) + R"(,"args":{)" + arguments(event) + "}");
  }

  void put_memory(const trace::MemorySample& sample) {
    record(R"("ph":"C","name":"allocated bytes","pid":)" + std::to_string(kDeviceProcess) + R"(,"ts":)" +
           microseconds(sample.time_ns) + R"(,"args":{"bytes":)" + std::to_string(sample.allocated_bytes) + "}");
  }

  const trace::Trace& trace_;
  std::vector<std::string> names_;  // quoted once: a name comes thousands of times
  std::string text_;
  bool first_ = true;
  int threads_ = 0;
};

}  // namespace

std::string perfetto(const trace::Trace& trace) { return Writer(trace).write(); }

}  // namespace memtune::report
