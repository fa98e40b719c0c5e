// Maps host moments to the device's timeline. The host issues work long before the device runs it. A host observation,
// such as "this much memory is held after this op", belongs where the device runs the work issued then. Therefore the
// host divides the step into numbered parts, from 1 on in issue order, each within one region of the step. The profiler
// reports for each piece of work in which part it was issued.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/record/trace/trace_event.h"

namespace memtune::trace {

struct HostIssueSegment {
  TraceRegionKey region = {};  // equal for consecutive parts that belong together; kind none: not shown
  std::string name;            // name of the region, for people
  int64_t host_ns = 0;         // host time of its start
};

class HostSegmentDeviceWindows {
 public:
  // `part_of`: by event of `trace`, the number of its part; 0: none. Parts without device work are placed at the end of
  // the part before them. If no part has device work, host times are used.
  HostSegmentDeviceWindows(const std::vector<HostIssueSegment>& parts, const Trace& trace,
                           const std::vector<uint32_t>& part_of);

  // Device times of the part's work: its start after all earlier parts, and the end of all work so far. Part 0: the
  // trace's start.
  int64_t begins_ns(uint32_t part) const { return windows_[part].begins_ns; }
  int64_t ends_ns(uint32_t part) const { return windows_[part].ends_ns; }

 private:
  struct Window {
    int64_t begins_ns = 0, ends_ns = 0;
  };
  std::vector<Window> windows_;  // by part number
};

// Adds a region to the track of blocks for each run of consecutive parts with the same region. Parts of kind none and
// runs without device work are skipped.
void add_block_regions(const std::vector<HostIssueSegment>& parts, const HostSegmentDeviceWindows& clock, Trace& trace);

}  // namespace memtune::trace
