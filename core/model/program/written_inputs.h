// Finds inputs that a program writes to. To run it twice on the same batch, pass copies of these.
#pragma once

#include <vector>

#include "core/model/program/program.h"

namespace memtune::program {

// Indexed like Program::body.inputs. Follows views, lists, branches and loops as far as schemas describe them.
std::vector<bool> written_inputs(const Program& program);

// Returns copies of the written inputs; the others unchanged.
std::vector<c10::IValue> unwritten(const std::vector<at::Tensor>& inputs, const std::vector<bool>& written);

}  // namespace memtune::program
