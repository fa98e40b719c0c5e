// Inputs that a program writes into: whoever runs it twice on the same batch has to give it copies of them.
#pragma once

#include <vector>

#include "core/program/program.h"

namespace memtune::program {

// By the order of Program::body.inputs, as far as schemas tell: through views, lists, branches and loops.
std::vector<bool> written_inputs(const Program& program);

// Copies of those that are written, and the others as they are.
std::vector<c10::IValue> unwritten(const std::vector<at::Tensor>& inputs, const std::vector<bool>& written);

}  // namespace memtune::program
