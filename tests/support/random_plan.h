// A plan that no strategy would write: every op's outputs and private values go anywhere.
#pragma once

#include "core/config/plan.h"
#include "core/program/program.h"

namespace memtune::tests {

// The same for ops of the same name in the same module whose result is bound to the same variable, so that a program
// from which statements were dropped keeps its plan.
config::Plan random_plan(const program::Program& program, const config::ProgramFacts& facts, uint64_t seed);

}  // namespace memtune::tests
