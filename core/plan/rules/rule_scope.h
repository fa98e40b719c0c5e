// Finds what a rule of a plan file selects in a program.
#pragma once

#include "core/plan/rules/hand_written_plan_file.h"
#include "core/plan/rules/op_memory_access_graph.h"

namespace memtune::plan {

struct RuleMatchedOpOutput {
  int op = 0;
  int output = 0;  // or kAll
  static constexpr int kAll = -2;
};

// Returns at least one. Throws UsageError, beginning with the rule's field, for what the program does not have.
std::vector<RuleMatchedOpOutput> select(const PlacementRule& rule, const ProgramFacts& facts,
                                        const OpMemoryAccessGraph& graph);

// The prefix of `region` that matches the glob: "layers.*.mlp" finds "layers.3.mlp" in "layers.3.mlp.w1". "": no match.
std::string matched_region(const std::string& glob, const std::string& region);

}  // namespace memtune::plan
