// Classifies an op and its effects on arguments by its schema and the table of ops
// (core/plan/facts/operator_class_and_argument_roles.h). The dispatcher's tags classify ops that the table does not
// have.
#pragma once

#include "core/model/program/program.h"

namespace memtune::program {

// Fills vararg, writes, may_alias_outputs, returns_alias, random, op_class and updates_statistics from `schema`,
// Op::name and Op::handle.
void describe(Op& op, const c10::FunctionSchema& schema);

}  // namespace memtune::program
