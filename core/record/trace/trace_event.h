// The timed events of one trial as plain data. Engines and the profiler write it; reports and the viewer read it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/id.h"
#include "core/record/trace/kinds.h"
#include "core/record/trace/run_provenance.h"

namespace memtune::trace {

using ValueId = Id<struct TracedActivationPlacement>;  // into Trace::values

// Times are in nanoseconds since the trace's start.
struct TraceEvent {
  EventKind kind = EventKind::kernel;
  uint32_t track = 0;  // index into Trace::tracks
  uint32_t name = 0;   // index into Trace::names
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // equal to start_ns for a moment
  int64_t bytes = 0;   // of copies, reads and writes
  uint64_t correlation = 0;
  ValueId value = {};          // the activation saved, copied or recomputed; none: not in the plan
  TraceRegionKey region = {};  // for events of kind region
  bool pageable = false;       // for copies: the host memory is not page-locked
};

// Allocated bytes of the device at a moment.
struct AllocatedBytesSample {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;
};

// An activation, one row of the plan. Events with its index show when it was saved, copied, recomputed and used.
struct TracedActivationPlacement {
  std::string name;       // "layers.3.mlp silu"
  std::string region;     // "layers.3"; outside of blocks: "before the blocks", "head"
  std::string placement;  // "keep", "recompute", "host", "disk"
  std::string reason;     // what recomputing it takes, for people; may be empty
  int64_t bytes = 0;
  int32_t block = kNoBlock;  // of the op that created it
};

struct MemoryOwner {
  MemoryOwnerKind kind = MemoryOwnerKind::outside;
  std::string name;          // "parameters", "layers.3"
  int32_t block = kNoBlock;  // for kind block
};

// Common name of similar blocks, for people: "layers.*" for "layers.3". For other owners their own name.
std::string family(const MemoryOwner& owner);

// An owner's device memory from `time_ns` on.
struct OwnerMemorySample {
  int64_t time_ns = 0;
  uint32_t owner = 0;  // index into Trace::owners
  int64_t bytes = 0;
};

struct Track {
  TrackRole role = TrackRole::host;
  int32_t stream = -1;  // the device's stream number; -1: no stream
  int32_t rank = 0;     // of the process, if several train together

  bool operator==(const Track&) const = default;
};
std::string to_string(const Track& track);  // "compute stream 7", "copy out", "host ops"; without the rank

struct Trace {
  RunProvenance origin;
  std::string strategy;
  std::string device;
  std::vector<Track> tracks;
  std::vector<std::string> names;
  std::vector<TraceEvent> events;
  std::vector<AllocatedBytesSample> memory;  // in order of time
  std::vector<TracedActivationPlacement> values;
  std::vector<MemoryOwner> owners;       // memory without an owner is workspace of ops
  std::vector<OwnerMemorySample> owned;  // in order of time
  int64_t budget_bytes = 0;              // of device memory; 0: none
  int64_t lost_records = 0;              // dropped by the profiler; mentioned in every report
  int64_t start_ns = 0;                  // wall-clock time of time 0, since 1970; 0: not known
  int32_t measured_rank = -1;            // the rank whose steps are measured, if there are several; -1: one process

  std::unordered_map<std::string, uint32_t> name_index;  // index of `names`, updated by name()

  uint32_t track(const Track& wanted);     // finds or adds; linear, there are few tracks
  uint32_t name(const std::string& text);  // finds or adds, in constant time
  const TracedActivationPlacement& value(ValueId id) const { return values[id.index()]; }

  // Metrics of a step use the events of one process. Events of other ranks are shown only.
  bool counts(const TraceEvent& event) const { return measured_rank < 0 || tracks[event.track].rank == measured_rank; }
};

bool has_ranks(const Trace& trace);                                 // more than one
std::string name_of_track(const Trace& trace, const Track& track);  // with its rank, if there are several

// The innermost device region around this moment for a rank; null if there is none.
const TraceEvent* region_at(const Trace& trace, int64_t time_ns, int32_t rank);
inline const TraceEvent* region_at(const Trace& trace, int64_t time_ns) {
  return region_at(trace, time_ns, trace.measured_rank);
}

}  // namespace memtune::trace
