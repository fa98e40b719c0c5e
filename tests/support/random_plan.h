// A plan that no strategy would produce: each op's outputs and private tensors get random places.
#pragma once

#include "core/model/program/program.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"

namespace memtune::tests {

// The n-th op of a name in a module always gets the same places. So a program without some statements keeps most of its
// plan.
plan::Plan random_plan(const program::Program& program, const plan::ProgramFacts& facts, uint64_t seed);

}  // namespace memtune::tests
