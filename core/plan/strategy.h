// Strategies: named rules that write a plan. Each is a few lines over ProgramFacts.
//
//   none
//   checkpoint:full | checkpoint:every=2 | checkpoint:op | checkpoint:cheap
//       [,inputs=keep|host|disk] [,blocks=0-9:12] [op: ,save=matmul+attention]
//   offload:sync | offload:stream | offload:group
//       [,tier=host|disk] [,fraction=0.4] [,min=1MiB] [,keep_last=1] [,blocks=0-9:12]
//       [sync, stream: ,head=keep|move] [stream: ,stash=8GiB ,prefetch=1GiB] [group: ,in_flight=1 ,prefetch=1]
//
// Parts are joined by '+' and apply in order: a later one only places what the earlier left on the device. Parts of one
// family are for different blocks.
//
//   Plan plan = make_plan("checkpoint:cheap+offload:stream,fraction=0.4", facts);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::plan {

struct ParameterInfo {
  std::string name;           // "inputs"
  std::string values;         // "keep | host | disk"
  std::string default_value;  // "keep"
  std::string help;
};

struct StrategyInfo {
  std::string name;  // "checkpoint:full"
  std::string help;  // what it does, in a line
  std::vector<ParameterInfo> parameters;
};

std::span<const StrategyInfo> strategies();

// Syntax, names, values and ranges that need no model. UsageError names the part and the valid forms.
void check_strategy(const std::string& spec);

// Some value may be placed on disk. UsageError as check_strategy's.
bool uses_disk(const std::string& spec);

// UsageError also for what only the model can tell: n larger than the number of blocks, an op it does not have,
// checkpointing a model in which no blocks were found.
config::Plan make_plan(const std::string& spec, const config::ProgramFacts& facts);

}  // namespace memtune::plan
