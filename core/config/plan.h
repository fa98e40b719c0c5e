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
  // Host: each tensor that the op saves is copied by itself, whatever its value's place is, as hooks on saved tensors
  // do it; not where the op is made again.
  Place saves = Place::keep;
  bool operator==(const OpPlacement&) const = default;
};

// When copies leave.
enum class Schedule {
  value,  // each value as soon as it was saved
  block,  // the values of a block together, when the block ends
};
std::string to_string(Schedule schedule);

// What becomes of tensors of OpPlacement::saves that show the same bytes.
enum class Repeats {
  move,   // each travels
  stay,   // what is still on its way out when it is saved again stays on the device from then on
  share,  // within a block equal views travel once
};
std::string to_string(Repeats repeats);

// What other programs' engines do otherwise than memtune's own, each independent of the others. See config/preset.h.
struct Habits {
  bool learns = true;            // from a step, when copies leave and come back; false: as told below
  int prefetch_ops = 0;          // unless it learns: what so many ops ahead of backward saved comes back
  int stash_saves = 0;           // > 0: a source stays until so many more tensors were copied, whatever their bytes
  bool counts_all = false;       // stash_saves: so many more tensors saved, of which some stay
  bool empties_stash = false;    // behind the first op of backward; else sources that are left stay until wanted
  bool one_stream = false;       // copies back queue behind copies out
  bool host_waits = false;       // until a copy out has ended
  bool power_of_two = false;     // blocks of host memory, which are never divided
  bool parameter_views = false;  // OpPlacement::saves: views of parameters travel too, transposed weights say
  bool flat_broadcasts = false;  // OpPlacement::saves: of a tensor with strides of 0 its storage travels
  bool whole_blocks = false;     // backward runs all of a block again, also what nobody wants
  Repeats repeats = Repeats::move;
  bool operator==(const Habits&) const = default;
};

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
  Habits habits;
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
