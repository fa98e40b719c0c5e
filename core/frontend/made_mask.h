// Attention masks that a program makes of nothing.
#pragma once

#include <string>

#include "core/program/program.h"

namespace memtune::frontend {

// What to do about them, for the notes; "" when no attention takes a mask that depends on no input, parameter or
// buffer. Such a mask is what a Hugging Face model writes out while it is recorded, where its training leaves the
// causal mask to the kernel.
std::string note_on_made_mask(const program::Program& program);

}  // namespace memtune::frontend
