// From the host's clock to the device's. The host issues work long before the device does it; what the host notes about
// a moment of the step ("so much memory is held after this op") belongs on the device's timeline where the work that it
// issued then is done. So the host cuts the step into parts, numbered from 1 in order of issue, each of a region of the
// step; the profiler tells in which part each piece of work was issued.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace memtune::trace {

struct Part {
  Region region = {};   // of neighbours that belong together the same; of kind none: nobody wants to see it
  std::string name;     // of the region, for people
  int64_t host_ns = 0;  // when the host began it
};

class PartClock {
 public:
  // `part_of`: for each event of `trace` the number of its part; 0: none. Parts without work of their own are where the
  // part before them ends. Without any part that did work the host's clock is the device's.
  PartClock(const std::vector<Part>& parts, const Trace& trace, const std::vector<uint32_t>& part_of);

  // When the device begins, and is done with, the part's work and all before it. `part` 0: the trace's start.
  int64_t begins_ns(uint32_t part) const { return windows_[part].begins_ns; }
  int64_t ends_ns(uint32_t part) const { return windows_[part].ends_ns; }

 private:
  struct Window {
    int64_t begins_ns = 0, ends_ns = 0;
  };
  std::vector<Window> windows_;  // by number
};

// One region on the track of blocks for each run of parts of one region, as long as its work; parts of kind none and
// runs without work have none.
void add_block_regions(const std::vector<Part>& parts, const PartClock& clock, Trace& trace);

}  // namespace memtune::trace
