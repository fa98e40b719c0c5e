// The tables of a program's embeddings.
#pragma once

#include <unordered_set>

#include "core/program/program.h"

namespace memtune::program {

// The tensors (their TensorImpl) that its embedding ops read: constants, or what objects hold now.
std::unordered_set<const void*> embedding_tables(const Program& program);

}  // namespace memtune::program
