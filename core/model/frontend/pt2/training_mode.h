// Finds out whether an exported program is in training mode, from the arguments of its ops.
#pragma once

#include <string>

#include "core/model/program/program.h"

namespace memtune::frontend {

// Returns a note on dropouts and batch norms in evaluation mode; "" if there are none.
std::string note_on_evaluation(const program::Program& program);

}  // namespace memtune::frontend
