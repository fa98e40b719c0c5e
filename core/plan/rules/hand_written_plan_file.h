// Plan files, written by hand: a strategy to begin with, and rules that place the values they select. Later rules win.
//
//   {"version": 1, "name": "mine", "strategy": "checkpoint:cheap",
//    "rules": [{"blocks": "0-9", "region": "layers.*.mlp", "op": "linear", "outputs": "host"},
//              {"inputs_of": "layers.*.mlp", "outputs": "disk"},
//              {"op": "attention", "saved": "keep"}],
//    "transfer": {"stash_bytes": 4294967296}}
//
// The plan.json of a run directory, with "placements" instead of rules, is a plan file too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::plan {

// Places the values that match all of its selectors.
struct PlacementRule {
  BlockSet blocks;        // with inputs_of: blocks of the ops that read the values
  std::string region;     // glob of module paths, submodules included; "": any
  std::string op;         // "linear", "aten::linear", or a class: matmul, attention, norm, cheap; "": any
  std::string inputs_of;  // glob as `region`: values that it reads and does not create; "": any
  std::optional<TensorPlacement> outputs, saved;
};

class HandWrittenPlanFile {
 public:
  // Reads the file and checks all that needs no model. Throws UsageError with file, rule and field, and IoError.
  explicit HandWrittenPlanFile(const std::filesystem::path& path);

  // Name in tables: the file's `name`, or the file name without extension.
  const std::string& name() const { return name_; }
  bool uses_disk() const;
  bool offloads_states() const;  // parameters and optimizer states

  // Throws UsageError with file, rule and field if the model lacks something, or if a rule selects nothing.
  Plan make_plan(const ProgramFacts& facts) const;

 private:
  void read(const std::string& text);
  Plan follow_rules(const ProgramFacts& facts) const;

  std::string file_, name_;
  Strategy strategy_;
  std::vector<PlacementRule> rules_;
  std::string transfer_;  // JSON text; "": the settings of the strategy
  std::optional<int64_t> saved_min_bytes_;
  std::optional<Plan> whole_;  // set for a file with placements
};

}  // namespace memtune::plan
