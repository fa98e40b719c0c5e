// What a program tells of itself without being run.
#pragma once

#include "core/config/program_facts.h"
#include "core/program/program.h"

namespace memtune::program {

// `blocks`: see find_blocks.
config::ProgramFacts facts(const Program& program, const std::vector<int>& blocks);

}  // namespace memtune::program
