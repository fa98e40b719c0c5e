// Describes a program without running it.
#pragma once

#include "core/model/program/program.h"
#include "core/plan/facts/program_facts.h"

namespace memtune::program {

// `blocks`: regions, as from find_blocks().
plan::ProgramFacts facts(const Program& program, const std::vector<int>& blocks);

}  // namespace memtune::program
