// Converts an exported program to a Program: inputs, state, graph and output.
#pragma once

#include "core/config/pt2_program.h"
#include "core/frontend/front_end.h"
#include "core/frontend/pt2/exported_weights.h"

namespace memtune::frontend {

// Writes for the source's device. Inputs that are numbers get the source's values. Throws UsageError without the
// model's path.
program::Program write_program(const config::Pt2Program& exported, const ExportedWeights& weights,
                               const Source& source);

}  // namespace memtune::frontend
