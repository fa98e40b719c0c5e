// Which parameters are gathered together: those of each block, and what is read outside of blocks by the stretch of the
// program between them, so that the embedding and the head are units of their own.
#pragma once

#include <string>
#include <vector>

#include "core/config/program_facts.h"
#include "core/program/program.h"

namespace memtune::shard {

struct ParameterUnit {
  std::string name;  // "layers.3", "before layers.0", "behind layers.15"
  program::NamedTensors parameters;
};

// In the order in which a forward reads them first; a tied parameter is where it is read first, one that no op names as
// a constant or an attribute in a unit "others". `facts` of the program.
// UsageError where what is trained shares its memory with something else.
std::vector<ParameterUnit> find_units(const program::Program& program, const config::ProgramFacts& facts);

}  // namespace memtune::shard
