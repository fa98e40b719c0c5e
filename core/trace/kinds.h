// What the things of a trace are. Programs decide by these types alone; the names in a trace are for people.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memtune::trace {

// Their numbers stand in the file: docs/formats.md says when its version has to change.
enum class EventKind : uint8_t {
  kernel,    // compute on the device
  copy_out,  // device to host
  copy_in,   // host to device
  copy_device,
  memset,
  wait,        // compute held up by a copy
  op,          // one op of the program as the host issued it
  region,      // a step, a phase of it, a part of the model: Event::region
  disk_write,  // host memory to the scratch file
  disk_read,   // and back
  save,        // a moment: autograd saved a value
  use,         // a moment: backward asked for it
  collective,  // with other ranks; it may hold the device while it waits for them
};
std::string to_string(EventKind kind);

// What runs on a track; in the order in which people like to see them.
enum class TrackRole : uint8_t {
  steps,    // regions of kind step: by the host, of other people's training by the device
  phases,   // the device's, of kind phase
  blocks,   // the device's, by part of the model
  compute,  // a stream of the device; so are the next three
  copy_out,
  copy_in,
  collectives,
  disk_write,
  disk_read,
  values,  // their saves and uses
  ops,     // as the host issued them
  reruns,  // ops that the host issued again
  host,    // anything else of the host
  stream,  // a stream of the device that did nothing telling
};
bool on_device(TrackRole role);  // by the device's clock and doing; else by the host

enum class RegionKind : uint8_t {
  none,  // no region, or one of which only the name is known
  step,
  phase,          // of a step: its pass
  before_blocks,  // the part of the model before its blocks
  block,          // one of its blocks
  head,           // the part behind them
};
enum class Pass : uint8_t { forward, backward, recompute, optimizer };
std::string to_string(Pass pass);

inline constexpr int32_t kNoBlock = -1;

struct Region {
  RegionKind kind = RegionKind::none;
  Pass pass = Pass::forward;
  int32_t block = kNoBlock;  // in the model's order, whatever it is called

  static Region phase(Pass pass) { return {RegionKind::phase, pass, kNoBlock}; }
  static Region of_block(int32_t block, Pass pass = Pass::forward) { return {RegionKind::block, pass, block}; }
  auto operator<=>(const Region&) const = default;
};

// Who holds memory of the device; in the order in which charts stack them, what lives long first.
enum class OwnerKind : uint8_t {
  parameters,
  optimizer,
  gradients,
  inputs,      // and buffers
  ahead,       // copied back, not used yet
  block,       // values of a block
  outside,     // values of no block
  work_space,  // of ops: what no owner holds; in charts, never in a trace
};

// The words of the file's header.
std::string to_string(TrackRole role);
std::string to_string(OwnerKind kind);
std::optional<TrackRole> parse_track_role(std::string_view word);
std::optional<OwnerKind> parse_owner_kind(std::string_view word);

}  // namespace memtune::trace
