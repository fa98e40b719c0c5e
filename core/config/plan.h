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
};
std::string to_string(Place place);
Place parse_place(const std::string& text);  // UsageError with the valid names

// What becomes of the values of one op. `op` is its number in ProgramFacts::ops (position in program order).
struct OpPlacement {
  int op = 0;
  std::string name;            // "layers.0.attn/aten::linear", for readers; checked against the program when loaded
  std::vector<Place> outputs;  // one an output; missing ones are keep
  Place saved = Place::keep;   // private values the op saves for its own backward (log-sum-exp, a dropout mask)
};

// How copies between device and host are scheduled. Bytes everywhere.
struct TransferSettings {
  bool side_stream = true;      // false: copies on the compute stream, nothing overlaps (offload:sync)
  int64_t min_bytes = 1 << 20;  // smaller storages stay on the device
  // Sources kept while their copy out runs; the forward waits beyond it. Once a step's bytes are known at most an
  // eighth of them (or two transfers).
  int64_t stash_bytes = int64_t{2} << 30;
  int64_t prefetch_bytes = int64_t{1} << 30;  // copies back issued ahead of the value in use; 0: none ahead
};

struct Plan {
  std::string strategy;                 // as the person wrote it: "checkpoint:full,inputs=host"
  std::vector<OpPlacement> placements;  // ops that are not named keep everything
  int64_t saved_min_bytes = 1 << 20;    // private values smaller than this always stay
  TransferSettings transfer;

  // Every value stays: no hooks are needed.
  bool keeps_everything() const;
};

void to_json(nlohmann::json& json, const Plan& plan);
void from_json(const nlohmann::json& json, Plan& plan);  // UsageError naming field and value

}  // namespace memtune::config
