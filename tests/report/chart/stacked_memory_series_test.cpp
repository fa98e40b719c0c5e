// A million samples are reduced to a few hundred columns. The peak and its owners must survive.
#include "core/answer/report/chart/stacked_memory_series.h"

#include <doctest/doctest.h>

#include "core/answer/report/chart/memory_chart.h"
#include "core/answer/report/interchange/memory_snapshot.h"
#include "tests/report/made_up_trace.h"

namespace memtune::stacked_memory_series_test {

using namespace memtune;
using report::stack_memory;
using report::StackedMemorySeries;

namespace {

trace::Trace two_owners() {
  trace::Trace trace;
  trace.owners = {{trace::MemoryOwnerKind::block, "layers.0", 0}, {trace::MemoryOwnerKind::parameters, "parameters"}};
  trace.owned = {{0, 1, 100}, {40, 0, 50}, {60, 0, 0}};
  trace.memory = {{0, 100}, {40, 150}, {50, 170}, {60, 100}, {99, 100}};
  return trace;
}

std::vector<std::string> owners_of(const StackedMemorySeries& stack) {
  std::vector<std::string> owners;
  for (const report::MemoryOwnerBand& band : stack.bands) owners.push_back(band.owner.name);
  return owners;
}

}  // namespace

TEST_CASE("long-lived owners are at the bottom and memory without owner is work space") {
  const StackedMemorySeries stack = stack_memory(two_owners(), 10);
  CHECK(owners_of(stack) == std::vector<std::string>{"parameters", "layers.0", "work space"});
  CHECK(stack.bands[0].bytes == std::vector<int64_t>(10, 100));
  CHECK(stack.bands[1].bytes == std::vector<int64_t>{0, 0, 0, 0, 50, 50, 50, 0, 0, 0});
  CHECK(stack.bands[2].bytes == std::vector<int64_t>{0, 0, 0, 0, 0, 20, 20, 0, 0, 0});
}

TEST_CASE("a column in which memory only falls shows the bytes at its start") {
  CHECK(stack_memory(two_owners(), 10).total == std::vector<int64_t>{100, 100, 100, 100, 150, 170, 170, 100, 100, 100});
}

TEST_CASE("the peak keeps its moment and its owners for any number of columns") {
  for (int columns : {1, 2, 3, 7, 1000}) {
    CAPTURE(columns);
    const StackedMemorySeries stack = stack_memory(two_owners(), columns);
    CHECK(stack.peak_bytes == 170);
    CHECK(stack.peak_ns == 50);
    CHECK(stack.at_peak == std::vector<int64_t>{100, 50, 20});
    CHECK(*std::max_element(stack.total.begin(), stack.total.end()) == 170);
  }
}

TEST_CASE("the peak is attributed to the innermost region of the device") {
  trace::Trace trace = two_owners();
  const uint32_t device = trace.track({trace::TrackRole::blocks}), host = trace.track({trace::TrackRole::steps});
  trace.events.push_back({trace::EventKind::region, device, trace.name("layers.0 backward"), 30, 80});
  trace.events.push_back({trace::EventKind::region, device, trace.name("layers.0 recompute"), 45, 55});
  trace.events.push_back({trace::EventKind::region, host, trace.name("elsewhere"), 49, 51});
  CHECK(stack_memory(trace, 10).phase == "layers.0 recompute");
}

TEST_CASE("owners with negative bytes in a damaged trace hold nothing") {
  trace::Trace trace = two_owners();
  trace.owned[1].bytes = -50;
  CHECK(report::memory_snapshot(trace).size() > 100);
}

TEST_CASE("a trace without memory has no stack and no chart") {
  CHECK(stack_memory({}, 10).empty());
  CHECK(report::memory_chart({}, 0) == "");
  CHECK(report::peak_text({}) == "");
}

TEST_CASE("one memory sample is enough for a chart") {
  trace::Trace trace;
  trace.memory = {{5, 100}};
  CHECK(stack_memory(trace, 4).total == std::vector<int64_t>(4, 100));
  CHECK(report::memory_chart(trace, 0).find("peak 100 B") != std::string::npos);
}

TEST_CASE("owners that hold more than is allocated do not make memory negative") {
  trace::Trace trace = two_owners();
  for (trace::AllocatedBytesSample& sample : trace.memory) sample.allocated_bytes = 60;
  const StackedMemorySeries stack = stack_memory(trace, 10);
  CHECK(owners_of(stack) == std::vector<std::string>{"parameters", "layers.0"});
}

TEST_CASE("the chart has a band per owner and one legend entry for all blocks and the budget and the peak") {
  const std::string chart = report::memory_chart(test::made_up_trace("mixed", 4, 1), 0);
  CHECK(chart.find("layers.0 to layers.3") != std::string::npos);
  CHECK(chart.find(">layers.1<") == std::string::npos);
  CHECK(chart.find("<title>layers.1: at most") != std::string::npos);
  CHECK(chart.find(">budget<") != std::string::npos);
  CHECK(chart.find(">peak ") != std::string::npos);
}

TEST_CASE("the peak text names the largest owners and sums blocks") {
  CHECK(report::peak_text(two_owners()) == "170 B at 0.0 ms: parameters 100 B, layers 50 B, work space 20 B");
}

}  // namespace memtune::stacked_memory_series_test
