// Converts an exported program to a Program: inputs, state, graph and output.
#pragma once

#include "core/model/frontend/front_end.h"
#include "core/model/frontend/pt2/loaded_pt2_tensors.h"
#include "core/model/pt2/parsed_pt2_program.h"

namespace memtune::frontend {

// Writes for the source's device. Inputs that are numbers get the source's values. Throws UsageError without the
// model's path.
program::Program write_program(const model::ParsedPt2Program& exported, const LoadedPt2Tensors& weights,
                               const ModelSourceAndLoweringOptions& source);

}  // namespace memtune::frontend
