// Blocks for a model in which nothing repeats: its ops in runs of about equal cost.
#pragma once

#include "core/config/program_facts.h"
#include "core/program/program.h"

namespace memtune::program {

// Gives the ops of the model, not those of its loss, to `facts.blocks` "segment.0", "segment.1", ...: about as many as
// make the most that is alive under full recomputation least, equal in saved bytes (in ops, where nothing was
// measured), each ending where little goes on. Says so in the notes. Facts that have blocks stay as they are.
void cut_into_segments(const Program& program, config::ProgramFacts& facts);

}  // namespace memtune::program
