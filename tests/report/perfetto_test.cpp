// The viewer drops what it cannot nest and refuses what is no JSON, both without a word; so the structure is checked.
#include "core/report/perfetto.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

using namespace memtune;
using nlohmann::json;
using trace::Event;
using trace::Kind;

namespace {

// Records of one phase, "X" slices, "M" names, "C" counters.
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

trace::Trace one_track(std::vector<Event> events) {
  trace::Trace trace;
  trace.device = "NVIDIA H200";
  trace.tracks = {{"compute", true}};
  trace.names = {"gemm"};
  trace.events = std::move(events);
  return trace;
}

}  // namespace

TEST_CASE("a slice has its times in microseconds, to the nanosecond") {
  std::vector<json> slices = records(one_track({{Kind::kernel, 0, 0, 1234567, 1236068, 0, 7}}), "X");
  REQUIRE(slices.size() == 1);
  CHECK(slices[0]["name"] == "gemm");
  CHECK(slices[0]["cat"] == "kernel");
  CHECK(slices[0]["ts"] == 1234.567);
  CHECK(slices[0]["dur"] == 1.501);
  CHECK(slices[0]["args"] == json{{"correlation", 7}});
}

TEST_CASE("a copy says its bytes and its rate: 2000 bytes in 1000 ns are 2 GB/s") {
  std::vector<json> slices = records(one_track({{Kind::copy_out, 0, 0, 0, 1000, 2000, 0}}), "X");
  CHECK(slices[0]["cat"] == "gpu_memcpy");
  CHECK(slices[0]["args"] == json{{"bytes", 2000}, {"memory bandwidth (GB/s)", 2.0}});
}

TEST_CASE("a copy that took no time has no rate") {
  std::vector<json> slices = records(one_track({{Kind::copy_in, 0, 0, 5, 5, 2000, 0}}), "X");
  CHECK(slices[0]["args"] == json{{"bytes", 2000}});
}

TEST_CASE("every kind has a category that viewers know") {
  std::vector<Event> events;
  for (Kind kind : {Kind::kernel, Kind::copy_out, Kind::copy_in, Kind::copy_device, Kind::memset, Kind::wait, Kind::op,
                    Kind::region}) {
    events.push_back({kind, 0, 0, int64_t(events.size()) * 10, int64_t(events.size()) * 10 + 5, 0, 0});
  }
  std::vector<std::string> categories;
  for (const json& slice : records(one_track(events), "X")) categories.push_back(slice["cat"]);
  CHECK(categories == std::vector<std::string>{"kernel", "gpu_memcpy", "gpu_memcpy", "gpu_memcpy", "gpu_memset",
                                               "user_annotation", "cpu_op", "user_annotation"});
}

TEST_CASE("tracks have names, the host's in a process of their own") {
  trace::Trace trace = one_track({{Kind::kernel, 0, 0, 0, 10, 0, 0}, {Kind::op, 1, 0, 0, 10, 0, 0}});
  trace.tracks.push_back({"main \"thread\"", false});
  CHECK(thread_names(trace) == std::map<int, std::string>{{1, "compute"}, {2, "main \"thread\""}});
  std::vector<json> slices = records(trace, "X");
  CHECK(slices[0]["pid"] != slices[1]["pid"]);
  CHECK(records(trace, "M")[0]["args"]["name"] == "NVIDIA H200");
}

TEST_CASE("nested slices share a track, in the order in which they open") {
  std::vector<json> slices = records(one_track({{Kind::op, 0, 0, 10, 20, 0, 0},
                                                {Kind::region, 0, 0, 0, 100, 0, 0},
                                                {Kind::op, 0, 0, 20, 100, 0, 0},
                                                {Kind::op, 0, 0, 0, 10, 0, 0}}),
                                     "X");
  REQUIRE(slices.size() == 4);
  for (const json& slice : slices) CHECK(slice["tid"] == 1);
  CHECK(slices[0]["dur"] == 0.1);
  CHECK(slices[1]["ts"] == 0);
  CHECK(slices[3]["ts"] == 0.02);
}

TEST_CASE("slices that overlap without nesting get a second track of the same name") {
  trace::Trace trace = one_track(
      {{Kind::kernel, 0, 0, 0, 10, 0, 0}, {Kind::kernel, 0, 0, 5, 15, 0, 0}, {Kind::kernel, 0, 0, 12, 20, 0, 0}});
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

TEST_CASE("lost records are said in the file") {
  trace::Trace trace;
  trace.strategy = "offload:stream";
  trace.lost_records = 3;
  json other = json::parse(report::perfetto(trace))["otherData"];
  CHECK(other["lost_records"] == 3);
  CHECK(other["strategy"] == "offload:stream");
}

TEST_CASE("an empty trace is valid too") {
  CHECK(records(trace::Trace{}, "X").empty());
  CHECK(records(trace::Trace{}, "M").size() == 2);
}
