// Operators over tensors that have shapes and no values, as a CPU would run them: with the kernels that it takes, so
// that a survey sees what those save. LibTorch has some of these for the meta device in Python only; they are
// registered here.
#pragma once

#include "core/program/program.h"

namespace memtune::step {

// Of a program whose tensors are on the meta device. LibTorch would take the composite of small operators there, which
// saves every weight of attention.
void attend_as_a_cpu(program::Program& program);

}  // namespace memtune::step
