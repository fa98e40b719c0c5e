// What an op is and does to its arguments: by its schema, the table of ops (config/op_traits.h), and for ops that the
// table does not have by the dispatcher's tags.
#pragma once

#include "core/program/program.h"

namespace memtune::program {

// Fills what `schema`, Op::name and Op::handle tell: vararg, writes, hands_on, returns_alias, random, op_class,
// moves_statistics.
void describe(Op& op, const c10::FunctionSchema& schema);

}  // namespace memtune::program
