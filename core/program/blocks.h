// Which regions of a program are its blocks: the repeated layers that a plan treats alike.
#pragma once

#include "core/program/program.h"

namespace memtune::program {

// Regions whose ops form the blocks, in program order: those whose path matches the glob `blocks`, or, when it is
// empty, those of the class that covers most of the program (containers and single-op modules aside). UsageError when a
// given glob matches nothing.
std::vector<int> find_blocks(const Program& program, const std::string& blocks);

}  // namespace memtune::program
