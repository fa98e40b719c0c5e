// Perfetto silently drops slices that do not nest and rejects invalid JSON, so this checks the structure.
#include "core/answer/report/interchange/perfetto.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace memtune::perfetto_test {

using namespace memtune;
using nlohmann::json;
using trace::EventKind;
using trace::TraceEvent;

namespace {

// Records of one phase: "X" slices, "M" names, "C" counters.
std::vector<json> records(const trace::Trace& trace, const std::string& phase) {
  std::vector<json> result;
  const json all = json::parse(report::perfetto(trace));
  for (const json& record : all["traceEvents"]) {
    if (record["ph"] == phase) result.push_back(record);
  }
  return result;
}

std::map<int, std::string> thread_names(const trace::Trace& trace) {
  std::map<int, std::string> names;
  for (const json& record : records(trace, "M")) {
    if (record["name"] == "thread_name") names[record["tid"]] = record["args"]["name"];
  }
  return names;
}

trace::Trace one_track(std::vector<TraceEvent> events) {
  trace::Trace trace;
  trace.device = "NVIDIA H200";
  trace.tracks = {{trace::TrackRole::compute}};
  trace.names = {"gemm"};
  trace.events = std::move(events);
  return trace;
}

}  // namespace

TEST_CASE("a slice has its times in microseconds with nanosecond precision") {
  std::vector<json> slices = records(one_track({{EventKind::kernel, 0, 0, 1234567, 1236068, 0, 7}}), "X");
  REQUIRE(slices.size() == 1);
  CHECK(slices[0]["name"] == "gemm");
  CHECK(slices[0]["cat"] == "kernel");
  CHECK(slices[0]["ts"] == 1234.567);
  CHECK(slices[0]["dur"] == 1.501);
  CHECK(slices[0]["args"] == json{{"device", 0}, {"stream", 1}, {"correlation", 7}});
}

TEST_CASE("a copy has its bytes and its bandwidth") {
  std::vector<json> slices = records(one_track({{EventKind::copy_out, 0, 0, 0, 1000, 2000, 0}}), "X");
  CHECK(slices[0]["cat"] == "gpu_memcpy");
  CHECK(slices[0]["args"] == json{{"device", 0}, {"stream", 1}, {"bytes", 2000}, {"memory bandwidth (GB/s)", 2.0}});
}

TEST_CASE("a copy without duration has no bandwidth") {
  std::vector<json> slices = records(one_track({{EventKind::copy_in, 0, 0, 5, 5, 2000, 0}}), "X");
  CHECK_FALSE(slices[0]["args"].contains("memory bandwidth (GB/s)"));
}

TEST_CASE("every event kind has a category that viewers know") {
  std::vector<TraceEvent> events;
  for (EventKind kind : {EventKind::kernel, EventKind::copy_out, EventKind::copy_in, EventKind::copy_device,
                         EventKind::memset, EventKind::wait, EventKind::op, EventKind::region, EventKind::disk_write,
                         EventKind::disk_read, EventKind::collective}) {
    events.push_back({kind, 0, 0, int64_t(events.size()) * 10, int64_t(events.size()) * 10 + 5, 0, 0});
  }
  std::vector<std::string> categories;
  for (const json& slice : records(one_track(events), "X")) categories.push_back(slice["cat"]);
  CHECK(categories == std::vector<std::string>{"kernel", "gpu_memcpy", "gpu_memcpy", "gpu_memcpy", "gpu_memset",
                                               "user_annotation", "cpu_op", "user_annotation", "disk", "disk",
                                               "kernel"});
}

TEST_CASE("tracks have names and the host has its own process") {
  trace::Trace trace = one_track({{EventKind::kernel, 0, 0, 0, 10, 0, 0}, {EventKind::op, 1, 0, 0, 10, 0, 0}});
  trace.tracks.push_back({trace::TrackRole::host});
  CHECK(thread_names(trace) == std::map<int, std::string>{{1, "compute"}, {2, "host"}});
  std::vector<json> slices = records(trace, "X");
  CHECK(slices[0]["pid"] != slices[1]["pid"]);
  CHECK(records(trace, "M")[0]["args"]["name"] == "NVIDIA H200");
}

TEST_CASE("each rank of a trace has its own process and its own steps") {
  trace::Trace trace;
  trace.device = "2 × NVIDIA H200";
  trace.names = {"step"};
  for (const int rank : {0, 1}) {
    const uint32_t track = trace.track({trace::TrackRole::steps, -1, rank});
    trace.events.push_back({EventKind::region, track, 0, 0, 10, 0, 0});
    trace.events.back().region.kind = trace::TraceRegionLevel::step;
  }
  const std::vector<json> steps = records(trace, "X");
  REQUIRE(steps.size() == 2);
  CHECK(steps[0]["pid"] != steps[1]["pid"]);
  CHECK(steps[0]["name"] == "step #0");
  CHECK(steps[1]["name"] == "step #0");
  const std::vector<json> names = records(trace, "M");
  CHECK(names[0]["args"]["name"] == "rank 0: 2 × NVIDIA H200");
  CHECK(names[3]["args"]["name"] == "rank 1: host");
  CHECK(names[3]["pid"] == steps[1]["pid"]);
}

TEST_CASE("nested slices share a track in the order of their starts") {
  std::vector<json> slices = records(one_track({{EventKind::op, 0, 0, 10, 20, 0, 0},
                                                {EventKind::region, 0, 0, 0, 100, 0, 0},
                                                {EventKind::op, 0, 0, 20, 100, 0, 0},
                                                {EventKind::op, 0, 0, 0, 10, 0, 0}}),
                                     "X");
  REQUIRE(slices.size() == 4);
  for (const json& slice : slices) CHECK(slice["tid"] == 1);
  CHECK(slices[0]["dur"] == 0.1);
  CHECK(slices[1]["ts"] == 0);
  CHECK(slices[3]["ts"] == 0.02);
}

TEST_CASE("slices that overlap without nesting get a second track of the same name") {
  trace::Trace trace = one_track({{EventKind::kernel, 0, 0, 0, 10, 0, 0},
                                  {EventKind::kernel, 0, 0, 5, 15, 0, 0},
                                  {EventKind::kernel, 0, 0, 12, 20, 0, 0}});
  std::vector<json> slices = records(trace, "X");
  CHECK(slices[0]["tid"] == 1);
  CHECK(slices[1]["tid"] == 2);
  CHECK(slices[2]["tid"] == 1);
  CHECK(thread_names(trace) == std::map<int, std::string>{{1, "compute"}, {2, "compute"}});
}

TEST_CASE("allocated memory is a counter") {
  trace::Trace trace;
  trace.memory = {{0, 100}, {1500, 4000000000}};
  std::vector<json> counters = records(trace, "C");
  REQUIRE(counters.size() == 2);
  CHECK(counters[1]["name"] == "allocated bytes");
  CHECK(counters[1]["ts"] == 1.5);
  CHECK(counters[1]["args"]["bytes"] == 4000000000);
}

TEST_CASE("every memory owner has its own counter") {
  trace::Trace trace;
  trace.owners = {{trace::MemoryOwnerKind::parameters, "parameters"}, {trace::MemoryOwnerKind::block, "layers.0", 0}};
  trace.owned = {{0, 0, 100}, {2000, 1, 50}};
  std::vector<json> counters = records(trace, "C");
  REQUIRE(counters.size() == 2);
  CHECK(counters[1]["name"] == "bytes of layers.0");
  CHECK(counters[1]["ts"] == 2);
  CHECK(counters[1]["args"]["bytes"] == 50);
}

TEST_CASE("copies have the names that PyTorch's profiler gives them") {
  std::vector<json> slices = records(one_track({{EventKind::copy_out, 0, 0, 0, 5, 1, 0},
                                                {EventKind::copy_in, 0, 0, 5, 6, 1, 0},
                                                {EventKind::copy_device, 0, 0, 6, 7, 1, 0},
                                                {EventKind::memset, 0, 0, 7, 8, 1, 0}}),
                                     "X");
  CHECK(slices[0]["name"] == "Memcpy DtoH (Device -> Pinned)");
  CHECK(slices[1]["name"] == "Memcpy HtoD (Pinned -> Device)");
  CHECK(slices[2]["name"] == "Memcpy DtoD (Device -> Device)");
  CHECK(slices[3]["name"] == "Memset (Device)");
}

TEST_CASE("the stream number comes from the track") {
  trace::Trace trace = one_track({{EventKind::kernel, 0, 0, 0, 10, 0, 0}});
  trace.tracks[0].stream = 7;
  CHECK(records(trace, "X")[0]["args"]["stream"] == 7);
}

TEST_CASE("an event outside device streams has no stream because viewers would count it as a kernel") {
  CHECK_FALSE(records(one_track({{EventKind::region, 0, 0, 0, 10, 0, 0}}), "X")[0]["args"].contains("stream"));
  CHECK_FALSE(records(one_track({{EventKind::wait, 0, 0, 0, 10, 0, 0}}), "X")[0]["args"].contains("stream"));
}

TEST_CASE("moments are instant events and steps are numbered") {
  trace::Trace trace = one_track({{EventKind::use, 1, 0, 5, 5, 0, 0},
                                  {EventKind::region, 1, 1, 0, 10, 0, 0},
                                  {EventKind::region, 1, 1, 10, 20, 0, 0}});
  trace.tracks.push_back({trace::TrackRole::steps});
  for (size_t step : {1, 2}) trace.events[step].region.kind = trace::TraceRegionLevel::step;
  trace.names.push_back("step");
  std::vector<json> moments = records(trace, "i");
  REQUIRE(moments.size() == 1);
  CHECK(moments[0]["s"] == "t");
  CHECK(moments[0]["name"] == "use gemm");
  std::vector<json> steps = records(trace, "X");
  CHECK(steps[0]["name"] == "step #0");
  CHECK(steps[1]["name"] == "step #1");
}

TEST_CASE("an event names its plan value") {
  trace::Trace trace = one_track({{EventKind::copy_out, 0, 0, 0, 10, 64, 0, trace::ValueId(0)}});
  trace.values = {{"layers.3 silu", "layers.3", "host", "", 64}};
  json args = records(trace, "X")[0]["args"];
  CHECK(args["value"] == "layers.3 silu");
  CHECK(args["placement"] == "host");
  CHECK(args["region"] == "layers.3");
}

TEST_CASE("flow arrows follow a value between slices and restart in the next step") {
  trace::Trace trace = one_track({{EventKind::save, 0, 0, 0, 0, 0, 0, trace::ValueId(0)},
                                  {EventKind::copy_out, 0, 0, 0, 10, 64, 0, trace::ValueId(0)},
                                  {EventKind::disk_write, 1, 0, 10, 20, 64, 0, trace::ValueId(0)},
                                  {EventKind::copy_in, 0, 0, 30, 40, 64, 0, trace::ValueId(0)},
                                  {EventKind::copy_out, 0, 0, 50, 60, 64, 0, trace::ValueId(0)},
                                  {EventKind::copy_out, 0, 0, 70, 80, 64, 0, trace::ValueId(1)}});
  trace.tracks.push_back({trace::TrackRole::disk_write});
  trace.values = {{"a", "", "disk", "", 64}, {"b", "", "host", "", 64}};
  std::vector<json> starts = records(trace, "s"), ends = records(trace, "f");
  REQUIRE(starts.size() == 2);
  REQUIRE(ends.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(starts[i]["id"] == ends[i]["id"]);
    CHECK(ends[i]["bp"] == "e");
  }
  CHECK(starts[0]["ts"] == 0);
  CHECK(ends[0]["ts"] == 0.01);
  CHECK(ends[0]["tid"] != starts[0]["tid"]);
  CHECK(ends[1]["ts"] == 0.03);
  CHECK(starts[0]["id"] != starts[1]["id"]);
}

TEST_CASE("Perfetto records are ordered by time") {
  trace::Trace trace = one_track({{EventKind::kernel, 0, 0, 500, 600, 0, 0}, {EventKind::kernel, 0, 0, 0, 100, 0, 0}});
  trace.memory = {{50, 1}, {700, 2}};
  double last = -1;
  const json all = json::parse(report::perfetto(trace));
  for (const json& record : all["traceEvents"]) {
    if (record["ph"] == "M") continue;
    CHECK(record["ts"] >= last);
    last = record["ts"];
  }
  CHECK(last == 0.7);
}

TEST_CASE("the file has the number of lost records") {
  trace::Trace trace;
  trace.strategy = "offload:stream";
  trace.lost_records = 3;
  json other = json::parse(report::perfetto(trace))["otherData"];
  CHECK(other["lost_records"] == 3);
  CHECK(other["strategy"] == "offload:stream");
  CHECK_FALSE(other.contains("command"));
  trace.origin.command = "memtune sweep --input 't:int64[4]<9'";
  CHECK(json::parse(report::perfetto(trace))["otherData"]["command"] == trace.origin.command);
}

TEST_CASE("the Perfetto file of an empty trace is valid") {
  CHECK(records(trace::Trace{}, "X").empty());
  CHECK(records(trace::Trace{}, "M").size() == 2);
}

}  // namespace memtune::perfetto_test
