// The timed events of one trial: plain data that engines and the profiler write and reports and the viewer read.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace memtune::trace {

enum class Kind : uint8_t {
  kernel,    // compute on the device
  copy_out,  // device to host
  copy_in,   // host to device
  copy_device,
  memset,
  wait,        // compute held up by a copy
  op,          // one op of the program as the host issued it
  region,      // a module or phase: "layers.3", "backward", "optimizer", "step"
  disk_write,  // host memory to the scratch file
  disk_read,   // and back
  save,        // a moment: autograd saved a value
  use,         // a moment: backward asked for it
  mark,        // a moment worth a flag: "out of memory"
};
std::string to_string(Kind kind);

// Times are nanoseconds since the trace's start.
struct Event {
  Kind kind = Kind::kernel;
  uint32_t track = 0;  // index into Trace::tracks
  uint32_t name = 0;   // index into Trace::names
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // the same for a moment
  int64_t bytes = 0;   // copies, reads, writes
  uint64_t correlation = 0;
  uint32_t value = 0;  // 1 + index into Trace::values of what was saved, moved or made again; 0: no value of the plan's
};

// Allocated bytes at a moment.
struct MemorySample {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;
};

// What one op made and backward needs: one row of the plan, and the trip that events with its index tell.
struct Value {
  std::string name;       // "layers.3.mlp silu"
  std::string region;     // "layers.3"; outside of blocks "before the blocks", "head"
  std::string placement;  // "keep", "recompute", "host", "disk"
  std::string reason;     // why there, in words; may be empty
  int64_t bytes = 0;
};

// From `time_ns` on an owner holds `bytes` of the device's memory.
struct OwnedSample {
  int64_t time_ns = 0;
  uint32_t owner = 0;  // index into Trace::owners
  int64_t bytes = 0;
};

struct Track {
  std::string name;    // "compute stream 7", "copy out", "host"
  bool device = true;  // false: a host thread
};

struct Trace {
  std::string strategy;
  std::string device;
  std::vector<Track> tracks;
  std::vector<std::string> names;
  std::vector<Event> events;
  std::vector<MemorySample> memory;  // in order of time
  std::vector<Value> values;
  std::vector<std::string> owners;  // "parameters", "optimizer", "inputs and buffers", "gradients", "copied back
                                    // ahead", "outside of blocks", "layers.3"; the rest is the work space of ops
  std::vector<OwnedSample> owned;   // in order of time
  int64_t budget_bytes = 0;         // of the device's memory; 0: none
  int64_t lost_records = 0;         // the profiler dropped that many; said in every report

  std::unordered_map<std::string, uint32_t> name_index;  // of `names`; name() keeps it

  uint32_t track(const std::string& name, bool device);  // finds or adds; tracks are few
  uint32_t name(const std::string& text);                // finds or adds, in constant time
};

}  // namespace memtune::trace
