// The types of a trace's parts. Code decides by these types; names in a trace are for people.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memtune::trace {

// The numbers are stored in trace files. docs/reference/files.md says when the file version changes.
enum class EventKind : uint8_t {
  kernel,    // compute on the device
  copy_out,  // device to host
  copy_in,   // host to device
  copy_device,
  memset,
  wait,        // compute waits for a copy
  op,          // one op of the program, as issued by the host
  region,      // a step, a phase or a part of the model: TraceEvent::region
  disk_write,  // host memory to scratch file
  disk_read,   // scratch file to host memory
  save,        // a moment: autograd saved an activation
  use,         // a moment: backward unpacked it
  collective,  // with other ranks; includes waiting for them on the device
};
std::string to_string(EventKind kind);

// Content of a track, in display order.
enum class TrackRole : uint8_t {
  steps,    // regions of kind step: of the host, or of the device for external training commands
  phases,   // device regions of kind phase
  blocks,   // device regions by part of the model
  compute,  // a device stream, like the next three
  copy_out,
  copy_in,
  collectives,
  disk_write,
  disk_read,
  values,  // saves and uses of activations
  ops,     // as issued by the host
  reruns,  // recomputed ops, as issued by the host
  host,    // other host work
  stream,  // a device stream without a known purpose
};
bool on_device(TrackRole role);  // on the device's timeline; else the host's

enum class TraceRegionLevel : uint8_t {
  none,  // no region, or only its name is known
  step,
  phase,          // a pass of a step
  before_blocks,  // the model before its blocks
  block,          // one of the blocks
  head,           // the model after its blocks
};
enum class Pass : uint8_t { forward, backward, recompute, optimizer };
std::string to_string(Pass pass);

inline constexpr int32_t kNoBlock = -1;

struct TraceRegionKey {
  TraceRegionLevel kind = TraceRegionLevel::none;
  Pass pass = Pass::forward;
  int32_t block = kNoBlock;  // index in model order

  static TraceRegionKey phase(Pass pass) { return {TraceRegionLevel::phase, pass, kNoBlock}; }
  static TraceRegionKey of_block(int32_t block, Pass pass = Pass::forward) {
    return {TraceRegionLevel::block, pass, block};
  }
  auto operator<=>(const TraceRegionKey&) const = default;
};

// Owners of device memory, in stacking order of charts: long-lived first.
enum class MemoryOwnerKind : uint8_t {
  parameters,
  optimizer,
  gradients,
  inputs,      // inputs and buffers
  prefetched,  // reloaded, not used yet
  block,       // activations of a block
  outside,     // activations of no block
  work_space,  // memory of ops without an owner; in charts only
};

// Words in the file's header.
std::string to_string(TrackRole role);
std::string to_string(MemoryOwnerKind kind);
std::optional<TrackRole> parse_track_role(std::string_view word);
std::optional<MemoryOwnerKind> parse_owner_kind(std::string_view word);

}  // namespace memtune::trace
