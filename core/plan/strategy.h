// Strategies as rules that write a plan, each a few lines over ProgramFacts.
//
//   Plan plan = make_plan(Strategy::parse("checkpoint:cheap+offload:stream,fraction=0.4"), facts);
#pragma once

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/config/strategy.h"

namespace memtune::plan {

// UsageError for what only the model can tell: n larger than the number of blocks, an op it does not have,
// checkpointing a model in which no blocks were found.
config::Plan make_plan(const config::Strategy& strategy, const config::ProgramFacts& facts);

}  // namespace memtune::plan
