// Finds where each value dies: at its last use, as in eager Python. A value that lived longer would raise the peak.
#pragma once

#include "core/model/program/program.h"

namespace memtune::program {

// Fills Op::last_use, Op::dead, Body::dead_at_entry and Body::output_last_use of the whole program in one backward
// walk. Call again after adding ops.
void find_last_uses(Program& program);

}  // namespace memtune::program
