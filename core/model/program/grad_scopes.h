// Scopes of a program without gradients, as torch.no_grad() in Python.
#pragma once

#include <unordered_set>

#include "core/model/program/program.h"

namespace memtune::program {

// Ops inside such scopes, those of their bodies included.
std::unordered_set<const Op*> ops_without_gradients(const Program& program);

}  // namespace memtune::program
