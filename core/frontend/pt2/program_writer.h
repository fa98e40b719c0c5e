// An exported program as a Program: its inputs, its state, its graph, its answer.
#pragma once

#include "core/config/pt2_program.h"
#include "core/frontend/front_end.h"
#include "core/frontend/pt2/exported_weights.h"

namespace memtune::frontend {

// For the source's device, with the source's numbers for inputs that are no tensors. UsageError, without the model's
// path.
program::Program write_program(const config::Pt2Program& exported, const ExportedWeights& weights,
                               const Source& source);

}  // namespace memtune::frontend
