#include "core/answer/report/interchange/perfetto.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>

#include "core/answer/report/interchange/perfetto_slice.h"

namespace memtune::report {
namespace {

constexpr int kDeviceProcess = 1, kHostProcess = 2;  // of the first rank; each further rank takes the next two

// Nanoseconds as microseconds, exact: a double would lose digits in long traces.
std::string microseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%s%lld.%03d", ns < 0 ? "-" : "", std::abs(static_cast<long long>(ns / 1000)),
                static_cast<int>(std::abs(ns % 1000)));
  return text;
}

bool is_moment(trace::EventKind kind) { return kind == trace::EventKind::save || kind == trace::EventKind::use; }

// The currently open slices of one viewer track, outermost first.
class OpenSlices {
 public:
  bool take(const trace::TraceEvent& event) {
    while (!open_.empty() && open_.back() <= event.start_ns) open_.pop_back();
    if (!open_.empty() && open_.back() < event.end_ns) return false;  // would end after its enclosing slice
    open_.push_back(event.end_ns);
    return true;
  }

 private:
  std::vector<int64_t> open_;
};

class Writer {
 public:
  explicit Writer(const trace::Trace& trace) : trace_(trace), threads_of_(trace.events.size()) {
    for (const trace::Track& track : trace.tracks) ranks_.try_emplace(track.rank, static_cast<int>(ranks_.size()));
    if (ranks_.empty()) ranks_[0] = 0;
  }

  std::string write() {
    put_head();
    for (const auto& [rank, index] : ranks_) {
      const std::string whose = ranks_.size() > 1 ? "rank " + std::to_string(rank) + ": " : "";
      const std::string device = trace_.device.empty() ? "device" : trace_.device;
      meta("process_name", kDeviceProcess + 2 * index, 0, R"("name":)" + quoted(whose + device));
      meta("process_name", kHostProcess + 2 * index, 0, R"("name":)" + quoted(whose + "host"));
    }
    for (uint32_t track = 0; track < trace_.tracks.size(); ++track) put_track(track, events_of_track(track));
    put_trips();
    for (const trace::AllocatedBytesSample& sample : trace_.memory)
      put_counter("allocated bytes", sample.time_ns, sample.allocated_bytes);
    for (const trace::OwnerMemorySample& sample : trace_.owned)
      put_counter("bytes of " + trace_.owners[sample.owner].name, sample.time_ns, sample.bytes);
    put_records();
    return std::move(text_) + "\n]}\n";
  }

 private:
  struct Record {
    int64_t time_ns;
    std::string body;
  };

  void put_head() {
    const std::string device = quoted(trace_.device.empty() ? "device" : trace_.device);
    text_ = R"({"schemaVersion":1,"displayTimeUnit":"ms","deviceProperties":[{"id":0,"name":)" + device +
            R"(}],"distributedInfo":{"rank":0,"world_size":1},"otherData":{"producer":"memtune","strategy":)" +
            quoted(trace_.strategy) + R"(,"device":)" + quoted(trace_.device) + R"(,"budget_bytes":)" +
            std::to_string(trace_.budget_bytes) + R"(,"lost_records":)" + std::to_string(trace_.lost_records) +
            origin() + "},\n\"traceEvents\":[";
  }

  std::string origin() const {
    std::string text;
    const trace::RunProvenance& from = trace_.origin;
    for (const auto& [name, value] : {std::pair("written", &from.written),
                                      {"command", &from.command},
                                      {"model", &from.model},
                                      {"memtune", &from.memtune},
                                      {"torch", &from.torch},
                                      {"driver", &from.driver},
                                      {"machine", &from.machine}})
      if (!value->empty()) text += ",\"" + std::string(name) + "\":" + quoted(*value);
    return text;
  }

  void put(const std::string& body) {
    text_ += first_ ? "\n{" : ",\n{";
    text_ += body + "}";
    first_ = false;
  }

  void meta(const char* what, int process, int thread, const std::string& args) {
    put(std::string(R"("ph":"M","name":")") + what + "\"," + place(process, thread) + R"(,"args":{)" + args + "}");
  }

  void record(int64_t time_ns, const std::string& phase, const std::string& rest) {
    records_.push_back({time_ns, R"("ph":")" + phase + R"(","ts":)" + microseconds(time_ns) + "," + rest});
  }

  // A stable sort keeps ties in recording order: outer slices before inner ones, slices before their arrows.
  void put_records() {
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Record& a, const Record& b) { return a.time_ns < b.time_ns; });
    for (const Record& record : records_) put(record.body);
  }

  static std::string place(int process, int thread) {
    return R"("pid":)" + std::to_string(process) + R"(,"tid":)" + std::to_string(thread);
  }
  int process_of(const trace::Track& track) const {
    return (on_device(track.role) ? kDeviceProcess : kHostProcess) + 2 * ranks_.at(track.rank);
  }
  int process_of(const trace::TraceEvent& event) const { return process_of(trace_.tracks[event.track]); }

  // Indices in order of time; at equal starts the longer event first, because it is the outer one.
  std::vector<size_t> events_of_track(uint32_t track) const {
    std::vector<size_t> indices;
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.events[i].track == track) indices.push_back(i);
    }
    std::stable_sort(indices.begin(), indices.end(), [&](size_t a, size_t b) {
      const trace::TraceEvent &x = trace_.events[a], &y = trace_.events[b];
      return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : x.end_ns > y.end_ns;
    });
    return indices;
  }

  int open_thread(uint32_t track) {
    const int process = process_of(trace_.tracks[track]);
    const int thread = ++threads_;
    meta("thread_name", process, thread, R"("name":)" + quoted(to_string(trace_.tracks[track])));
    meta("thread_sort_index", process, thread, R"("sort_index":)" + std::to_string(thread));
    return thread;
  }

  void put_track(uint32_t track, const std::vector<size_t>& indices) {
    std::vector<OpenSlices> open(1);
    std::vector<int> threads = {open_thread(track)};
    const int32_t number = trace_.tracks[track].stream;
    const int64_t stream = number >= 0 ? number : threads.front();
    for (size_t index : indices) {
      const trace::TraceEvent& event = trace_.events[index];
      size_t i = 0;
      while (!is_moment(event.kind) && !open[i].take(event)) {
        if (++i < open.size()) continue;
        open.emplace_back();
        threads.push_back(open_thread(track));
      }
      threads_of_[index] = threads[i];
      put_event(event, threads[i], stream);
    }
  }

  void put_event(const trace::TraceEvent& event, int thread, int64_t stream) {
    const bool step = event.region.kind == trace::TraceRegionLevel::step;
    const std::string name =
        step ? "step #" + std::to_string(steps_[trace_.tracks[event.track].rank]++) : slice_name(trace_, event);
    const std::string what = R"("cat":")" + std::string(slice_category(event)) + R"(","name":)" + quoted(name) + "," +
                             place(process_of(event), thread) + R"(,"args":{)" +
                             slice_arguments(trace_, event, stream) + "}";
    if (is_moment(event.kind)) return record(event.start_ns, "i", R"("s":"t",)" + what);
    record(event.start_ns, "X",
           R"("dur":)" + microseconds(std::max<int64_t>(0, event.end_ns - event.start_ns)) + "," + what);
  }

  // Arrows from each slice of a tensor to the next one. A save or a copy out begins a new chain.
  void put_trips() {
    std::vector<size_t> order(trace_.events.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t i) { return !trace_.events[i].value; });
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const trace::TraceEvent &x = trace_.events[a], &y = trace_.events[b];
      return x.value != y.value ? x.value < y.value : x.start_ns < y.start_ns;
    });
    const size_t none = trace_.events.size();
    size_t last = none;
    for (size_t i = 0; i < order.size(); ++i) {
      const trace::TraceEvent& event = trace_.events[order[i]];
      const bool begins = event.kind == trace::EventKind::save || event.kind == trace::EventKind::copy_out ||
                          (i > 0 && trace_.events[order[i - 1]].value != event.value);
      if (begins) last = none;
      if (is_moment(event.kind) || event.end_ns <= event.start_ns) continue;
      if (last != none) put_arrow(last, order[i]);
      last = order[i];
    }
  }

  void put_arrow(size_t from, size_t to) {
    const trace::TraceEvent &first = trace_.events[from], &second = trace_.events[to];
    const std::string what = R"("cat":"value","name":)" + quoted(trace_.value(first.value).name) + R"(,"id":)" +
                             std::to_string(++arrows_) + ",";
    record(first.start_ns, "s", what + place(process_of(first), threads_of_[from]));
    record(second.start_ns, "f", R"("bp":"e",)" + what + place(process_of(second), threads_of_[to]));
  }

  void put_counter(const std::string& name, int64_t time_ns, int64_t bytes) {
    record(time_ns, "C",
           R"("name":)" + quoted(name) + R"(,"pid":)" + std::to_string(kDeviceProcess) + R"(,"args":{"bytes":)" +
               std::to_string(bytes) + "}");
  }

  const trace::Trace& trace_;
  std::vector<int> threads_of_;  // by event
  std::vector<Record> records_;
  std::string text_;
  bool first_ = true;
  std::map<int32_t, int> ranks_, steps_;  // by rank: its index, its steps so far
  int threads_ = 0, arrows_ = 0;
};

}  // namespace

std::string perfetto(const trace::Trace& trace) { return Writer(trace).write(); }

}  // namespace memtune::report
