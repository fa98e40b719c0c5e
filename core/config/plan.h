// A plan: where each value of a training step spends the time between its forward and its backward. Written by
// strategies (core/plan) or by a person, read by the engines. Plain data; the file form is JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace memtune::config {

enum class Place {
  keep,       // stays on the device
  recompute,  // dropped after forward, made again from what is still there
  host,       // copied to host memory, copied back ahead of its use
  disk,       // as host; beyond the host budget it waits in the scratch file
};
std::string to_string(Place place);
Place parse_place(const std::string& text);  // UsageError with the valid names

// What becomes of the values of one op. `op` is its number in ProgramFacts::ops (position in program order).
struct OpPlacement {
  int op = 0;
  std::string name;            // "layers.0.attn/aten::linear", for readers; checked against the program when loaded
  std::vector<Place> outputs;  // one an output; missing ones are keep
  Place saved = Place::keep;   // private values the op saves for its own backward (log-sum-exp, a dropout mask)
  bool operator==(const OpPlacement&) const = default;
};

// When copies leave.
enum class Schedule {
  value,  // each value as soon as it was saved
  block,  // the values of a block together, when the block ends
};
std::string to_string(Schedule schedule);

// How copies between device and host are scheduled. Bytes everywhere.
struct TransferSettings {
  bool pinned = true;                         // page-locked host memory; false: copies pass the driver's own buffers
  bool side_stream = true;                    // false: copies on the compute stream, nothing overlaps (offload:sync)
  int64_t min_bytes = 1 << 20;                // smaller storages stay on the device
  int64_t stash_bytes = int64_t{8} << 30;     // sources kept while their copy out runs, as far as the peak allows
  int64_t prefetch_bytes = int64_t{1} << 30;  // copies back issued ahead of the value in use; 0: none ahead
  Schedule schedule = Schedule::value;
  int groups_in_flight = 1;  // Schedule::block: sources of at most that many blocks wait for their copies out
  int prefetch_blocks = 1;   // Schedule::block: blocks copied back ahead of the one that backward is in
  bool operator==(const TransferSettings&) const = default;
};

struct Plan {
  std::string strategy;                 // in its canonical form, or the name that a person gave the plan
  std::vector<OpPlacement> placements;  // ops that are not named keep everything
  int64_t saved_min_bytes = 1 << 20;    // private values smaller than this always stay
  // Nested checkpoints: a value of another block than backward is in is made in passing: only what blocks hand to each
  // other is held, and what lies between is made once more when backward gets there.
  bool nested = false;
  TransferSettings transfer;

  bool places(Place place) const;  // whether any value goes there
  bool moves() const { return places(Place::host) || places(Place::disk); }
  // Every value stays: no hooks are needed.
  bool keeps_everything() const;
  bool operator==(const Plan&) const = default;
};

// Fields that `json` has replace those of `transfer`. UsageError begins with `path`.
void read_transfer(const nlohmann::json& json, const std::string& path, TransferSettings& transfer);

void to_json(nlohmann::json& json, const Plan& plan);
void from_json(const nlohmann::json& json, Plan& plan);  // UsageError naming field and value

}  // namespace memtune::config
