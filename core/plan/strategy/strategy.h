// The strategy language: parser, table and printer. Strategies name the rules that write a plan (core/plan).
//
//   none
//   checkpoint:full | checkpoint:every=2 | checkpoint:op | checkpoint:cheap
//       [,inputs=keep|host|disk] [,blocks=0-9:12] [full: ,segment=4] [op: ,save=matmul+attention]
//   offload:sync | offload:stream | offload:group
//       [,tier=host|disk] [,memory=pinned|pageable] [,fraction=0.4] [,min=1MiB] [,keep_last=1] [,blocks=0-9:12]
//       [sync, stream: ,head=keep|move] [stream: ,stash=8GiB ,prefetch=1GiB] [group: ,in_flight=1 ,prefetch=1]
//   states=host [,parameters=host|keep] [,moments=host|keep] [,outside=keep|moments|host] [,blocks=0-9:12]
//   offload:torchtune | checkpoint:hf-offload[,every=2] | ...    engines of other programs (engine_preset.h)
//
// '+' joins parts, which apply in order: a part places only what earlier parts left on the device. Parts of one family
// must name different blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/plan/strategy/block_set.h"
#include "core/plan/strategy/plan.h"
#include "core/plan/strategy/third_party_engine_preset.h"

namespace memtune::plan {

enum class StrategyKind {
  none,
  checkpoint_full,
  checkpoint_every,
  checkpoint_op,
  checkpoint_cheap,
  offload_sync,
  offload_stream,
  offload_group,
  checkpoint_preset,  // an engine of another program, named by StrategyInfo::preset
  offload_preset,
  states_host,
};

enum class StrategyParameterId {
  inputs,
  save,
  segment,
  tier,
  memory,
  fraction,
  stash,
  in_flight,
  min,
  prefetch,
  keep_last,
  blocks,
  head,
  every,
  layers,
  parameters,
  moments,
  outside,
};

// Type of a parameter's value.
enum class StrategyParameterType { words, names, share, count, positive, bytes, blocks };

struct StrategyParameterInfo {
  StrategyParameterId parameter;
  std::string_view name;  // "inputs"
  StrategyParameterType form;
  std::string_view words;          // "keep | host | disk"; "" for other forms
  std::string_view default_value;  // "keep"
  std::string_view help;
  bool schedules = false;  // about how copies run: must be equal in all parts, because a plan has one TransferSettings
};
std::string_view values_text(const StrategyParameterInfo& info);  // valid values, for people: "a number from 0 to 1"

struct StrategyInfo {
  StrategyKind kind;
  std::string_view name;                              // "checkpoint:full", "checkpoint:every=n"
  std::string_view help;                              // one line
  std::span<const StrategyParameterInfo> parameters;  // in printing order
  const ThirdPartyEnginePreset* preset = nullptr;     // not null: an engine of another program
};
std::span<const StrategyInfo> strategies();

// Alternatives: words, names, share, count/positive/bytes, blocks.
using Value = std::variant<std::string, std::vector<std::string>, double, int64_t, BlockSet>;

// One part of a strategy. It has a value for every parameter of its kind, the default if none was given.
class StrategyPart {
 public:
  explicit StrategyPart(const StrategyInfo& info, int64_t every = 1);

  StrategyKind kind() const { return info_->kind; }
  const StrategyInfo& info() const { return *info_; }
  int64_t every() const { return every_; }  // n of checkpoint:every=n, else 1
  bool is_checkpoint() const;
  bool is_offload() const;       // of activations
  bool is_states() const;        // of parameters and optimizer states
  bool offloads_inputs() const;  // a checkpoint that offloads its blocks' inputs to the CPU or disk

  bool has(StrategyParameterId parameter) const;
  // The part must have the parameter, with a value of that form.
  const std::string& word(StrategyParameterId parameter) const { return std::get<std::string>(value(parameter)); }
  TensorPlacement place(StrategyParameterId parameter) const { return parse_place(word(parameter)); }
  const std::vector<std::string>& names(StrategyParameterId parameter) const;
  double share(StrategyParameterId parameter) const { return std::get<double>(value(parameter)); }
  int count(StrategyParameterId parameter) const { return static_cast<int>(bytes(parameter)); }
  int64_t bytes(StrategyParameterId parameter) const { return std::get<int64_t>(value(parameter)); }
  const BlockSet& blocks() const;                            // all if the part has no parameter `blocks`
  std::string text(StrategyParameterId parameter) const;     // in printed form
  std::string setting(StrategyParameterId parameter) const;  // "fraction=0.4"
  std::vector<StrategyParameterId> changed() const;          // parameters whose value is not the default

  // Throws UsageError like Strategy::parse().
  void set(StrategyParameterId parameter, const std::string& text);

  bool operator==(const StrategyPart& other) const;

 private:
  const Value& value(StrategyParameterId parameter) const;
  size_t index(StrategyParameterId parameter) const;

  const StrategyInfo* info_;
  int64_t every_;
  std::vector<Value> values_;  // in the order of info_->parameters
};
std::string to_string(const StrategyPart& part);

class Strategy {
 public:
  // Checks everything that needs no model. Throws UsageError with the part, the valid forms and the nearest name.
  static Strategy parse(const std::string& text);
  // Returns nothing if `name` is no strategy, for example the name of a plan that a person wrote.
  static std::optional<Strategy> of_name(const std::string& name);

  Strategy();  // none
  explicit Strategy(const StrategyPart& part) : parts_{part} {}

  const std::vector<StrategyPart>& parts() const& { return parts_; }  // at least one
  const std::vector<StrategyPart>& parts() const&& = delete;          // would dangle
  bool is_none() const;
  bool offloads() const;
  bool recomputes() const;
  bool offloads_states() const;       // parameters and optimizer states
  bool offloads_activations() const;  // may offload activations to the CPU or disk
  bool uses_disk() const;             // may offload activations to disk

  // Copy with one parameter changed in each part that has it. Throws UsageError like parse().
  Strategy with(StrategyParameterId parameter, const std::string& value) const;
  Strategy with(StrategyParameterId parameter, const std::function<std::string(const StrategyPart& part)>& value) const;
  // Copies without offloading, or without recomputation; `none` if no part is left. without_offload() replaces presets
  // that offload checkpoint inputs by memtune's own checkpoints. without_recompute() requires checkpoints that keep
  // their inputs on the device.
  Strategy without_offload() const;
  Strategy without_recompute() const;
  // Simpler strategies: each one without one part, then each one that keeps the inputs that one part offloads. `none`
  // is not included.
  std::vector<Strategy> with_one_less() const;
  // Copy with parts of one kind replaced by another; parameters that both kinds have keep their values.
  Strategy with(StrategyKind from, StrategyKind to, int64_t every = 1) const;

  bool operator==(const Strategy&) const = default;

 private:
  explicit Strategy(std::vector<StrategyPart> parts);
  Strategy without(bool (StrategyPart::*is_left_out)() const) const;

  std::vector<StrategyPart> parts_;
};

// Canonical form: no blanks, parameters in the table's order, defaults left out, one spelling per value. It identifies
// a trial in tables, keys and folder names.
std::string to_string(const Strategy& strategy);

// Canonical form of a trial's name. Other names, such as those of plans, are returned unchanged.
std::string canonical_name(const std::string& name);

}  // namespace memtune::plan
