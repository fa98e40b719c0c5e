// The language of strategies, which name rules that write a plan (core/plan). One parser, one table, one way to print.
//
//   none
//   checkpoint:full | checkpoint:every=2 | checkpoint:op | checkpoint:cheap
//       [,inputs=keep|host|disk] [,blocks=0-9:12] [full: ,segment=4] [op: ,save=matmul+attention]
//   offload:sync | offload:stream | offload:group
//       [,tier=host|disk] [,memory=pinned|pageable] [,fraction=0.4] [,min=1MiB] [,keep_last=1] [,blocks=0-9:12]
//       [sync, stream: ,head=keep|move] [stream: ,stash=8GiB ,prefetch=1GiB] [group: ,in_flight=1 ,prefetch=1]
//   offload:torchtune | checkpoint:hf-offload[,every=2] | ...    what other programs' engines do (config/preset.h)
//
// Parts are joined by '+' and apply in order: a later one only places what the earlier left on the device. Parts of one
// family are for different blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/config/block_ranges.h"
#include "core/config/plan.h"
#include "core/config/preset.h"

namespace memtune::config {

enum class StrategyKind {
  none,
  checkpoint_full,
  checkpoint_every,
  checkpoint_op,
  checkpoint_cheap,
  offload_sync,
  offload_stream,
  offload_group,
  checkpoint_preset,  // StrategyInfo::preset says whose
  offload_preset,
};

enum class Parameter {
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
};

// What a parameter takes.
enum class Form { words, names, share, count, positive, bytes, blocks };

struct ParameterInfo {
  Parameter parameter;
  std::string_view name;  // "inputs"
  Form form;
  std::string_view words;          // "keep | host | disk"; "" for other forms
  std::string_view default_value;  // "keep"
  std::string_view help;
  bool schedules = false;  // how copies run: the same in all parts, for a plan has one way of copying
};
std::string_view values_text(const ParameterInfo& info);  // what it takes, for people: "a number from 0 to 1"

struct StrategyInfo {
  StrategyKind kind;
  std::string_view name;                      // "checkpoint:full", "checkpoint:every=n"
  std::string_view help;                      // what it does, in a line
  std::span<const ParameterInfo> parameters;  // in the order in which they are written
  const Preset* preset = nullptr;             // of an engine that is not memtune's
};
std::span<const StrategyInfo> strategies();

// By Form: words, names, share, count and positive and bytes, blocks.
using Value = std::variant<std::string, std::vector<std::string>, double, int64_t, BlockRanges>;

// One part, with every parameter of its kind: defaults are filled in.
class StrategyPart {
 public:
  explicit StrategyPart(const StrategyInfo& info, int64_t every = 1);

  StrategyKind kind() const { return info_->kind; }
  const StrategyInfo& info() const { return *info_; }
  int64_t every() const { return every_; }  // n of checkpoint:every=n, else 1
  bool is_checkpoint() const;
  bool is_offload() const;
  bool moves_inputs() const;  // of a checkpoint: its blocks' inputs wait on the host or on disk

  bool has(Parameter parameter) const;
  // Of a parameter that the part has, of the form in question.
  const std::string& word(Parameter parameter) const { return std::get<std::string>(value(parameter)); }
  Place place(Parameter parameter) const { return parse_place(word(parameter)); }
  const std::vector<std::string>& names(Parameter parameter) const;
  double share(Parameter parameter) const { return std::get<double>(value(parameter)); }
  int count(Parameter parameter) const { return static_cast<int>(bytes(parameter)); }
  int64_t bytes(Parameter parameter) const { return std::get<int64_t>(value(parameter)); }
  const BlockRanges& blocks() const;               // all, where the part has no such parameter
  std::string text(Parameter parameter) const;     // of any form, as it is written
  std::string setting(Parameter parameter) const;  // "fraction=0.4"
  std::vector<Parameter> changed() const;          // those that have not their defaults

  // UsageError as Strategy::parse's.
  void set(Parameter parameter, const std::string& text);

  bool operator==(const StrategyPart& other) const;

 private:
  const Value& value(Parameter parameter) const;
  size_t index(Parameter parameter) const;

  const StrategyInfo* info_;
  int64_t every_;
  std::vector<Value> values_;  // in the order of info_->parameters
};
std::string to_string(const StrategyPart& part);

class Strategy {
 public:
  // Checks all that needs no model. UsageError names the part and the valid forms, with the nearest name.
  static Strategy parse(const std::string& text);
  // Nothing for the name of a plan that a person wrote.
  static std::optional<Strategy> of_name(const std::string& name);

  Strategy();  // none
  explicit Strategy(const StrategyPart& part) : parts_{part} {}

  const std::vector<StrategyPart>& parts() const& { return parts_; }  // at least one
  const std::vector<StrategyPart>& parts() const&& = delete;          // of what is gone with the expression
  bool is_none() const;
  bool offloads() const;
  bool recomputes() const;
  bool moves() const;      // some value may be placed on the host or on disk
  bool uses_disk() const;  // some value may be placed on disk

  // The same with a parameter changed in each part that takes it. UsageError as parse.
  Strategy with(Parameter parameter, const std::string& value) const;
  Strategy with(Parameter parameter, const std::function<std::string(const StrategyPart& part)>& value) const;
  // The same with nothing offloaded, and with nothing recomputed: `none` where no part is left. Another program's
  // checkpoints that keep their inputs on the host become memtune's own; `without_recompute` is for strategies whose
  // checkpoints keep inputs on the device.
  Strategy without_offload() const;
  Strategy without_recompute() const;
  // Each strategy that leaves out one part, then each that keeps the inputs that one part moves; `none` is not among
  // them.
  std::vector<Strategy> with_one_less() const;
  // The same with parts of one kind as another, which keep what both kinds take.
  Strategy with(StrategyKind from, StrategyKind to, int64_t every = 1) const;

  bool operator==(const Strategy&) const = default;

 private:
  explicit Strategy(std::vector<StrategyPart> parts);
  Strategy without(bool (StrategyPart::*is_left_out)() const) const;

  std::vector<StrategyPart> parts_;
};

// Canonical: no blanks, parameters in the table's order, those with their default left out, equal values spelled alike.
// What names a trial, its key and its folder.
std::string to_string(const Strategy& strategy);

// The canonical form of a trial's name; a name that is no strategy, as plans have, as it is.
std::string canonical_name(const std::string& name);

}  // namespace memtune::config
