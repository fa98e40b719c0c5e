// Turns a strategy into a plan for a model, by rules over ProgramFacts.
//
//   Plan plan = make_plan(Strategy::parse("checkpoint:cheap+offload:stream,fraction=0.4"), facts);
#pragma once

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/strategy.h"

namespace memtune::plan {

// Throws UsageError for what only the model can show: n larger than the number of blocks, an op that it lacks, or
// checkpointing of a model without blocks.
config::Plan make_plan(const config::Strategy& strategy, const config::ProgramFacts& facts);

}  // namespace memtune::plan
