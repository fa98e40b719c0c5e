// A plan as a program in Python can follow it: what becomes of the values of a block, by the functions of torch that
// make them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::trainer {

// Places of what a function returns, and of what it saves for its own backward.
struct FunctionPlaces {
  config::Place result = config::Place::keep, own = config::Place::keep;
  auto operator<=>(const FunctionPlaces&) const = default;
};

// "self_attn.q_proj/linear#0": module path within the block, function, how many of that name ran there before.
using PlacesByFunction = std::map<std::string, FunctionPlaces>;

struct Treatment {
  std::vector<int> blocks;     // that are treated alike
  FunctionPlaces others = {};  // of functions that are not in the map
  PlacesByFunction functions = {};
};

struct TreatedProgram {
  std::vector<Treatment> treatments;
  std::vector<std::string> regions = {};  // module paths within blocks that functions are named by
  bool moves_input = false;               // of the first block
  int64_t most_moved_bytes = 0;           // of one block
  int64_t moved_bytes = 0;                // of all blocks
  int64_t left_bytes = 0;                 // that all blocks save and the device keeps; 0 where nothing was measured
  std::vector<std::string> notes = {};    // what of the plan is done otherwise, or not
};

// UsageError where no blocks were found, and for a plan of another model.
TreatedProgram treat(const config::Plan& plan, const config::ProgramFacts& facts);

}  // namespace memtune::trainer
