// Blocks for a model without repeated layers: its ops, divided into segments of about equal cost.
#pragma once

#include "core/model/program/program.h"
#include "core/plan/facts/program_facts.h"

namespace memtune::program {

// Adds the blocks "segment.0", "segment.1", ... to `facts`. They cover the ops of the model but not of the loss. The
// number of segments minimizes peak memory under full recomputation. Segments have about equal saved bytes (or ops, if
// nothing was measured), and end where few bytes cross. Adds a note. Does nothing if `facts` has blocks.
void cut_into_segments(const Program& program, plan::ProgramFacts& facts);

}  // namespace memtune::program
