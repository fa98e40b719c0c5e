// The host runs ahead of the device. Its parts must be mapped to the device time of their work.
#include "core/record/trace/host_timeline_segments.h"

#include <doctest/doctest.h>

namespace memtune::host_timeline_segments_test {

using namespace memtune::trace;

namespace {

struct Work {
  uint32_t part;
  int64_t start_ns, end_ns;
  EventKind kind = EventKind::kernel;
};

struct Step {
  Step(std::vector<HostIssueSegment> of, const std::vector<Work>& work) : parts(std::move(of)) {
    for (const auto& [part, start, end, kind] : work) {
      trace.events.push_back({kind, trace.track({TrackRole::compute}), trace.name("k"), start, end});
      part_of.push_back(part);
    }
  }
  std::vector<HostIssueSegment> parts;
  Trace trace;
  std::vector<uint32_t> part_of;
};

// A part of block "a", "b" or "c". "": a part of no block.
HostIssueSegment part(const std::string& name, int64_t host_ns) {
  return {name.empty() ? TraceRegionKey() : TraceRegionKey::of_block(name[0] - 'a'), name, host_ns};
}

std::string regions(Step step) {
  const HostSegmentDeviceWindows clock(step.parts, step.trace, step.part_of);
  const size_t before = step.trace.events.size();
  add_block_regions(step.parts, clock, step.trace);
  std::string text;
  for (size_t i = before; i < step.trace.events.size(); ++i) {
    const TraceEvent& event = step.trace.events[i];
    CHECK(event.kind == EventKind::region);
    CHECK(step.trace.tracks[event.track].role == TrackRole::blocks);
    text +=
        step.trace.names[event.name] + " " + std::to_string(event.start_ns) + "-" + std::to_string(event.end_ns) + ";";
  }
  return text;
}

}  // namespace

TEST_CASE("a part spans its kernels and a part without kernels is empty at the end of its predecessor") {
  const Step step({part("a", 1), part("a", 2), part("b", 3)}, {{1, 100, 110}, {1, 120, 130}, {3, 140, 150}});
  const HostSegmentDeviceWindows clock(step.parts, step.trace, step.part_of);
  CHECK(clock.begins_ns(0) == 0);
  CHECK(clock.begins_ns(1) == 100);
  CHECK(clock.ends_ns(1) == 130);
  CHECK(clock.begins_ns(2) == 130);
  CHECK(clock.ends_ns(2) == 130);
  CHECK(clock.ends_ns(3) == 150);
}

TEST_CASE("copies and work without a part do not move the parts of a step") {
  const Step step({part("a", 1), part("b", 2)},
                  {{1, 10, 20}, {1, 15, 90, EventKind::copy_out}, {0, 0, 500}, {2, 30, 40}});
  const HostSegmentDeviceWindows clock(step.parts, step.trace, step.part_of);
  CHECK(clock.ends_ns(1) == 20);
  CHECK(clock.begins_ns(2) == 30);
  CHECK(clock.ends_ns(2) == 40);
}

TEST_CASE("the clock never goes back for work issued later") {
  const Step step({part("a", 1), part("b", 2)}, {{1, 10, 60}, {2, 20, 30}});
  const HostSegmentDeviceWindows clock(step.parts, step.trace, step.part_of);
  CHECK(clock.begins_ns(2) == 60);
  CHECK(clock.ends_ns(2) == 60);
}

TEST_CASE("without work of known parts the device clock equals the host clock") {
  const Step step({part("a", 5), part("b", 8), part("b", 9)}, {{0, 0, 100}});
  const HostSegmentDeviceWindows clock(step.parts, step.trace, step.part_of);
  CHECK(clock.begins_ns(1) == 5);
  CHECK(clock.ends_ns(1) == 8);
  CHECK(clock.ends_ns(3) == 9);
}

TEST_CASE("adjacent parts of one region are merged and parts without region or work are dropped") {
  CHECK(regions({{part("a", 1), part("a", 2), part("", 3), part("b", 4), part("c", 5), part("a", 6)},
                 {{1, 10, 20}, {2, 22, 30}, {3, 31, 32}, {5, 40, 50}, {6, 50, 55}}}) == "a 10-30;c 40-50;a 50-55;");
  CHECK(regions({{}, {}}) == "");
}

}  // namespace memtune::host_timeline_segments_test
