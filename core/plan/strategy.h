// Strategies: named rules that write a plan. Each is a few lines over ProgramFacts.
//
//   none
//   checkpoint:full | checkpoint:every=2 | checkpoint:op      [,inputs=keep|host] [op: ,save=matmul+attention]
//   offload:sync | offload:stream                            [,stash=2GiB] [,min=1MiB] [,prefetch=1GiB]
//   [,head=keep|move]
//
//   Plan plan = make_plan("checkpoint:full,inputs=host", facts);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::plan {

struct ParameterInfo {
  std::string name;           // "inputs"
  std::string values;         // "keep | host"
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

// UsageError also for what only the model can tell: n larger than the number of blocks, an op it does not have,
// checkpointing a model in which no blocks were found.
config::Plan make_plan(const std::string& spec, const config::ProgramFacts& facts);

}  // namespace memtune::plan
