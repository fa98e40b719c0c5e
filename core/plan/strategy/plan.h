// A plan: where each activation of a training step is between forward and backward. Strategies (core/plan) or people
// write plans; the engines read them. Plain data, stored as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace memtune::plan {

enum class TensorPlacement {
  keep,       // stays on the device
  recompute,  // freed after forward and recomputed from what is still resident
  host,       // offloaded to the CPU, reloaded before its use
  disk,       // as host; the part above the host budget is offloaded to the scratch file
};
std::string to_string(TensorPlacement place);
TensorPlacement parse_place(const std::string& text);  // throws UsageError with the valid names

// Placement of one op's activations. `op` is its number in ProgramFacts::ops, in program order.
struct OneOpActivationPlacements {
  int op = 0;
  std::string name;  // "layers.0.attn/aten::linear", for readers; compared with the program at loading
  std::vector<TensorPlacement> outputs;  // one per output; missing entries mean keep
  TensorPlacement saved =
      TensorPlacement::keep;  // tensors the op saves only for its own backward (log-sum-exp, dropout mask)
  // host: each saved tensor of the op is copied on its own, as saved-tensor hooks would do it, whatever the place of
  // its activation. Does not apply to recomputed ops.
  TensorPlacement saves = TensorPlacement::keep;
  bool operator==(const OneOpActivationPlacements&) const = default;
};

// When offload copies start.
enum class ActivationOffloadCopyGranularity {
  value,  // each activation as soon as it was saved
  block,  // the activations of a block together, at the block's end
};
std::string to_string(ActivationOffloadCopyGranularity schedule);

// Handling of tensors of OneOpActivationPlacements::saves that share bytes with another saved tensor.
enum class RepeatedSavedTensorOffloadPolicy {
  move,   // every one is offloaded
  stay,   // if an earlier offload copy is still running, the tensor stays on the device
  share,  // equal views within a block are offloaded once
};
std::string to_string(RepeatedSavedTensorOffloadPolicy repeats);

// Engine compatibility flags: where other programs' engines differ from memtune's own. Each is independent of the
// others. See core/plan/strategy/third_party_engine_preset.h.
struct ThirdPartyEngineEmulationFlags {
  bool learns = true;          // learns the copy schedule in one step; false: fixed by the flags below
  int prefetch_ops = 0;        // if not learns: reload what this many ops ahead of backward saved, 0 or 1
  int stash_saves = 0;         // > 0: a source stays until this many more tensors were offloaded, of any size
  bool counts_all = false;     // stash_saves counts all saved tensors, also those that stay on the device
  bool empties_stash = false;  // frees the remaining sources after backward's first op, not at their use
  bool one_stream = false;     // reloads queue behind offload copies, on the same stream
  bool host_waits = false;     // the host blocks until each offload copy has finished
  bool power_of_two = false;   // host memory in power-of-two blocks that are never split
  bool parameter_views =
      false;  // OneOpActivationPlacements::saves: offloads views of parameters too, for example transposed weights
  bool flat_broadcasts = false;  // OneOpActivationPlacements::saves: offloads the storage of a tensor with zero strides
  bool whole_blocks = false;     // backward recomputes every op of a block, needed or not
  RepeatedSavedTensorOffloadPolicy repeats = RepeatedSavedTensorOffloadPolicy::move;
  bool operator==(const ThirdPartyEngineEmulationFlags&) const = default;
};

// Settings of the copies between device and host. Sizes are in bytes.
struct TransferSettings {
  bool pinned = true;           // page-locked host memory; false: copies pass through the driver's staging buffers
  bool side_stream = true;      // false: copies run on the compute stream without overlap (offload:sync)
  int64_t min_bytes = 1 << 20;  // smaller storages stay on the device
  int64_t stash_bytes = int64_t{8} << 30;  // sources kept on the device during their offload copy, as the peak permits
  int64_t prefetch_bytes = int64_t{1} << 30;  // reloads issued ahead of the activation in use; 0: no prefetch
  ActivationOffloadCopyGranularity schedule = ActivationOffloadCopyGranularity::value;
  int groups_in_flight =
      1;  // ActivationOffloadCopyGranularity::block: blocks whose sources may stay during their offload copies
  int prefetch_blocks = 1;  // ActivationOffloadCopyGranularity::block: blocks reloaded ahead of the one backward is in
  ThirdPartyEngineEmulationFlags compatibility;
  bool operator==(const TransferSettings&) const = default;
};

// Where the parameters and the optimizer states of a unit are while no op uses them: keep or host. A unit is a block,
// or all that is outside of blocks: embeddings, final norm, output layer.
struct UnitStatePlacement {
  std::string unit;  // a block's region, "layers.0"; kOutsideUnits
  TensorPlacement parameters = TensorPlacement::keep, moments = TensorPlacement::keep;
  bool operator==(const UnitStatePlacement&) const = default;
};
inline constexpr const char* kOutsideUnits = "outside";

struct Plan {
  std::string strategy;                               // in canonical form, or the name that a person gave the plan
  std::vector<OneOpActivationPlacements> placements;  // ops without an entry keep everything
  int64_t saved_min_bytes = 1 << 20;                  // smaller private tensors always stay on the device
  // Nested checkpoints. Recomputing for the current block may run other blocks on the way. Only their block-to-block
  // activations are kept; the rest is recomputed once more when backward reaches them.
  bool nested = false;
  TransferSettings transfer;
  std::vector<UnitStatePlacement> states;  // of units with a place other than keep

  bool places(TensorPlacement place) const;  // whether any activation has this place
  bool offloads_activations() const { return places(TensorPlacement::host) || places(TensorPlacement::disk); }
  bool offloads_states() const { return !states.empty(); }
  // Every activation stays on the device, so no hooks are needed.
  bool keeps_everything() const;
  bool operator==(const Plan&) const = default;
};

// Overwrites the fields of `transfer` that `json` contains. Throws UsageError that begins with `path`.
void read_transfer(const nlohmann::json& json, const std::string& path, TransferSettings& transfer);

void to_json(nlohmann::json& json, const UnitStatePlacement& placement);
void from_json(const nlohmann::json& json,
               UnitStatePlacement& placement);  // throws UsageError that names field and value
void to_json(nlohmann::json& json, const Plan& plan);
void from_json(const nlohmann::json& json, Plan& plan);  // throws UsageError that names field and value

}  // namespace memtune::plan
