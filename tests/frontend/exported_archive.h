// A program as an archive of torch.export, as a person's file would hold it, without Python.
#pragma once

#include <string>

#include "core/model/program/program.h"

namespace memtune::tests {

// Of programs that answer with one tensor and call operators of LibTorch alone. Inputs are of `dtype` (the schema's
// number), sizes of 2 by 12 of which all may be others.
std::string exported_archive(const program::Program& program, int dtype = 5);

}  // namespace memtune::tests
