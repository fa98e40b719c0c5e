// Translates a plan to what a Python program can follow: a place for the saved tensors of each torch function within a
// block.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"

namespace memtune::trainer {

// Places of the tensors that a function returns, and of those that it saves for its own backward.
struct TorchFunctionResultAndSavePlacements {
  plan::TensorPlacement result = plan::TensorPlacement::keep, own = plan::TensorPlacement::keep;
  auto operator<=>(const TorchFunctionResultAndSavePlacements&) const = default;
};

// "self_attn.q_proj/linear#0": module path within the block, function, number of earlier calls of that function there.
using PlacementsByFunction = std::map<std::string, TorchFunctionResultAndSavePlacements>;

struct EqualBlocksTorchFunctionPlacements {
  std::vector<int> blocks;                           // with the same policy
  TorchFunctionResultAndSavePlacements others = {};  // for functions that are not in the map
  PlacementsByFunction functions = {};
};

struct PythonPlanBlockPlacements {
  std::vector<EqualBlocksTorchFunctionPlacements> block_policies;
  std::vector<std::string> regions = {};  // module paths within blocks, part of the functions' names
  bool offloads_input = false;            // offloads the first block's input
  int64_t max_offloaded_bytes = 0;        // the largest of any block
  int64_t offloaded_bytes = 0;            // of all blocks
  int64_t left_bytes = 0;                 // saved by all blocks and kept on the device; 0: not measured
  std::vector<std::string> notes = {};    // how the Python plan deviates from this plan
};

// Throws UsageError if the model has no blocks, and for a plan of another model.
PythonPlanBlockPlacements make_block_policies(const plan::Plan& plan, const plan::ProgramFacts& facts);

}  // namespace memtune::trainer
