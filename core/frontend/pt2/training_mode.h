// Whether an exported program trains: its mode stands in the arguments of its ops.
#pragma once

#include <string>

#include "core/program/program.h"

namespace memtune::frontend {

// What to tell of dropouts and batch norms that are switched off; "" where all are on, or there are none.
std::string note_on_evaluation(const program::Program& program);

}  // namespace memtune::frontend
