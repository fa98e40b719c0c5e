// The timed events of one trial: plain data that engines and the profiler write and reports and the viewer read.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/id.h"
#include "core/trace/kinds.h"
#include "core/trace/origin.h"

namespace memtune::trace {

using ValueId = Id<struct TracedValue>;  // into Trace::values

// Times are nanoseconds since the trace's start.
struct Event {
  EventKind kind = EventKind::kernel;
  uint32_t track = 0;  // index into Trace::tracks
  uint32_t name = 0;   // index into Trace::names
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // the same for a moment
  int64_t bytes = 0;   // copies, reads, writes
  uint64_t correlation = 0;
  ValueId value = {};     // that was saved, moved or made again; none: no value of the plan's
  Region region = {};     // of events of kind region
  bool pageable = false;  // of copies: the memory on the host's side is not page-locked
};

// Allocated bytes at a moment.
struct MemorySample {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;
};

// What one op made and backward needs: one row of the plan, and the trip that events with its index tell.
struct TracedValue {
  std::string name;       // "layers.3.mlp silu"
  std::string region;     // "layers.3"; outside of blocks "before the blocks", "head"
  std::string placement;  // "keep", "recompute", "host", "disk"
  std::string reason;     // why there, in words; may be empty
  int64_t bytes = 0;
  int32_t block = kNoBlock;  // of the op that made it
};

struct Owner {
  OwnerKind kind = OwnerKind::outside;
  std::string name;          // "parameters", "layers.3"
  int32_t block = kNoBlock;  // of kind block
};

// What blocks of one sort are called together, for people: "layers.*" of "layers.3"; of other owners their name.
std::string family(const Owner& owner);

// From `time_ns` on an owner holds `bytes` of the device's memory.
struct OwnedSample {
  int64_t time_ns = 0;
  uint32_t owner = 0;  // index into Trace::owners
  int64_t bytes = 0;
};

struct Track {
  TrackRole role = TrackRole::host;
  int32_t stream = -1;  // the device's number of it; -1: has none
  int32_t rank = 0;     // of the process, where several train together

  bool operator==(const Track&) const = default;
};
std::string to_string(const Track& track);  // "compute stream 7", "copy out", "host ops"; without its rank

struct Trace {
  Origin origin;
  std::string strategy;
  std::string device;
  std::vector<Track> tracks;
  std::vector<std::string> names;
  std::vector<Event> events;
  std::vector<MemorySample> memory;  // in order of time
  std::vector<TracedValue> values;
  std::vector<Owner> owners;       // what none of them holds is the work space of ops
  std::vector<OwnedSample> owned;  // in order of time
  int64_t budget_bytes = 0;        // of the device's memory; 0: none
  int64_t lost_records = 0;        // the profiler dropped that many; said in every report
  int64_t start_ns = 0;            // when time 0 was, by the machine's clock, since 1970; 0: not told
  int32_t measured_rank = -1;      // of several, the one whose steps figures are of; -1: there is but one

  std::unordered_map<std::string, uint32_t> name_index;  // of `names`; name() keeps it

  uint32_t track(const Track& wanted);     // finds or adds; tracks are few
  uint32_t name(const std::string& text);  // finds or adds, in constant time
  const TracedValue& value(ValueId id) const { return values[id.index()]; }

  // Figures of a step are of one process's events: what others do at the time is beside it.
  bool counts(const Event& event) const { return measured_rank < 0 || tracks[event.track].rank == measured_rank; }
};

bool has_ranks(const Trace& trace);                                 // several
std::string name_of_track(const Trace& trace, const Track& track);  // with its rank, where there are several

// The innermost of the device's regions around the moment, of a rank; null: there is none.
const Event* region_at(const Trace& trace, int64_t time_ns, int32_t rank);
inline const Event* region_at(const Trace& trace, int64_t time_ns) {
  return region_at(trace, time_ns, trace.measured_rank);
}

}  // namespace memtune::trace
