// What an op is: by the table of names, and for those that it does not have by what the dispatcher knows of them.
#pragma once

#include "core/program/program.h"

namespace memtune::program {

// Fills Op::op_class, Op::random and Op::moves_statistics from Op::name, Op::handle and the schema.
void classify(Op& op, const c10::FunctionSchema& schema);

}  // namespace memtune::program
