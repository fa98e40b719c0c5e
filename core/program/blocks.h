// Which regions of a program are its blocks: the repeated layers that a plan treats alike.
#pragma once

#include "core/program/program.h"

namespace memtune::program {

// Regions whose ops form the blocks, in program order, none inside another: those whose path matches the glob `blocks`
// or, when it is empty, the members of lists (layers.3, of whatever class) and modules that run more than once. Of a
// stage that is a row of smaller members those are taken, of other modules never their parts. Where nothing is
// numbered, the class that covers most; where nothing larger repeats, single convolutions or linear layers with what
// goes with them. Empty when nothing repeats. UsageError when a given glob matches nothing.
std::vector<int> find_blocks(const Program& program, const std::string& blocks);

}  // namespace memtune::program
