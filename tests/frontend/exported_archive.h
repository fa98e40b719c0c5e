// Writes a program as a torch.export archive, as a user's file would hold it, without Python.
#pragma once

#include <string>

#include "core/model/program/program.h"

namespace memtune::tests {

// `program` must return one tensor and call only LibTorch operators. Inputs have `dtype` (the schema's number) and a
// size of 2 by 12, and every dimension is dynamic.
std::string exported_archive(const program::Program& program, int dtype = 5);

}  // namespace memtune::tests
