// Finds the embedding tables of a program.
#pragma once

#include <unordered_set>

#include "core/model/program/program.h"

namespace memtune::program {

// Returns the TensorImpl of each table that an embedding op reads: constants, or the current attributes of objects.
std::unordered_set<const void*> embedding_tables(const Program& program);

}  // namespace memtune::program
