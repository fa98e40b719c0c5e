// Finds attention masks that a program makes without any input.
#pragma once

#include <string>

#include "core/model/program/program.h"

namespace memtune::frontend {

// Returns a note with the remedy, or "" if every mask depends on an input, parameter or buffer. Recording a Hugging
// Face model writes out its causal mask. In training the model leaves the causal mask to the kernel.
std::string note_on_generated_mask(const program::Program& program);

}  // namespace memtune::frontend
