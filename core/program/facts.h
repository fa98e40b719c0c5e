// Describes a program without running it.
#pragma once

#include "core/config/program_facts.h"
#include "core/program/program.h"

namespace memtune::program {

// `blocks`: regions, as from find_blocks().
config::ProgramFacts facts(const Program& program, const std::vector<int>& blocks);

}  // namespace memtune::program
