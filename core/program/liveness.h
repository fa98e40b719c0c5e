// When each value dies: at its last use, as in eager Python. A value that outlives it makes every peak wrong.
#pragma once

#include "core/program/program.h"

namespace memtune::program {

// Fills (again, when ops have come) Op::last_use, Op::dead and Body::dead_at_entry of the whole program, by one walk
// backwards.
void find_last_uses(Program& program);

}  // namespace memtune::program
