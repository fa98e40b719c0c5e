// Shape-only operators (meta device) that select the kernels of a CPU. A survey then sees what those kernels save.
// LibTorch implements some of these for the meta device in Python only; they are registered here.
#pragma once

#include "core/model/program/program.h"

namespace memtune::step {

// Makes attention in a program on the meta device take the CPU's flash kernel if a CPU would. LibTorch's composite for
// the meta device saves all attention weights.
void use_cpu_attention_kernels(program::Program& program);

}  // namespace memtune::step
