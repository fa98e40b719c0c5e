// Plans that a person writes: a strategy to begin with, and rules that place what they select; a later rule wins.
//
//   {"version": 1, "name": "mine", "strategy": "checkpoint:cheap",
//    "rules": [{"blocks": "0-9", "region": "layers.*.mlp", "op": "linear", "outputs": "host"},
//              {"inputs_of": "layers.*.mlp", "outputs": "disk"},
//              {"op": "attention", "saved": "keep"}],
//    "transfer": {"stash_bytes": 4294967296}}
//
// The plan.json that a run directory keeps, with "placements" instead of rules, is one too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/strategy.h"

namespace memtune::plan {

// What all selectors that are given have in common is placed.
struct PlanRule {
  config::BlockRanges blocks;  // with inputs_of: of the ops that take the values
  std::string region;          // glob of module paths, what is inside included; "": any
  std::string op;              // "linear", "aten::linear", or a class: matmul, attention, norm, cheap; "": any
  std::string inputs_of;       // glob as `region`: values that such a region takes from outside it; "": any
  std::optional<config::Place> outputs, saved;
};

class PlanFile {
 public:
  // UsageError for all that can be told without the model, with file, rule and field. IoError.
  explicit PlanFile(const std::filesystem::path& path);

  // What tables call it: the file's `name`, or what the file is called.
  const std::string& name() const { return name_; }
  bool uses_disk() const;

  // UsageError with file, rule and field for what this model does not have, and for a rule that selects nothing.
  config::Plan make_plan(const config::ProgramFacts& facts) const;

 private:
  void read(const std::string& text);
  config::Plan follow_rules(const config::ProgramFacts& facts) const;

  std::string file_, name_;
  config::Strategy strategy_;
  std::vector<PlanRule> rules_;
  std::string transfer_;  // JSON text; "": as the strategy has it
  std::optional<int64_t> saved_min_bytes_;
  std::optional<config::Plan> whole_;  // of a file with placements
};

}  // namespace memtune::plan
