// A plan that no strategy would write: every op's outputs and private values go anywhere.
#pragma once

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/program/program.h"

namespace memtune::tests {

// The same for the n-th op of its name in the same module, so that a program from which statements were dropped keeps
// most of its plan.
config::Plan random_plan(const program::Program& program, const config::ProgramFacts& facts, uint64_t seed);

}  // namespace memtune::tests
