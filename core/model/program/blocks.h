// Finds the blocks of a program: the repeated layers that a plan treats alike.
#pragma once

#include "core/model/program/program.h"

namespace memtune::program {

// Returns the regions that form the blocks, in program order; no block is inside another. A non-empty glob `blocks`
// selects the regions with a matching path. Throws UsageError if none matches. Otherwise the first of these that covers
// a third of the arithmetic:
//   1. members of lists (layers.3, of any class) and modules that run more than once. A stage that is a chain of
//      smaller members is replaced by these members; other modules are never split.
//   2. the regions of the class that covers most arithmetic.
//   3. single convolutions or linear layers, with their norm and activation.
// Empty if nothing repeats.
std::vector<int> find_blocks(const Program& program, const std::string& blocks);

}  // namespace memtune::program
