// Groups parameters into units that are gathered together: one per block, and one per stretch of the program outside of
// blocks. So the embedding and the head are units of their own.
#pragma once

#include <string>
#include <vector>

#include "core/model/program/program.h"
#include "core/plan/facts/program_facts.h"

namespace memtune::shard {

struct ParameterUnit {
  std::string name;  // "layers.3", "before layers.0", "behind layers.15"
  program::NamedTensors parameters;
};

// Returns units in the order of their first read in forward. A tied parameter belongs to the unit that reads it first.
// Parameters that no op reads as a constant or attribute form the unit "others". `facts` must describe `program`.
// Throws UsageError if a trained parameter shares its memory with another tensor.
std::vector<ParameterUnit> find_units(const program::Program& program, const plan::ProgramFacts& facts);

}  // namespace memtune::shard
