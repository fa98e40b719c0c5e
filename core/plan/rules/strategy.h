// Turns a strategy into a plan for a model, by rules over ProgramFacts.
//
//   Plan plan = make_plan(Strategy::parse("checkpoint:cheap+offload:stream,fraction=0.4"), facts);
#pragma once

#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::plan {

// Throws UsageError for what only the model can show: n larger than the number of blocks, an op that it lacks, or
// checkpointing of a model without blocks.
Plan make_plan(const Strategy& strategy, const ProgramFacts& facts);

}  // namespace memtune::plan
