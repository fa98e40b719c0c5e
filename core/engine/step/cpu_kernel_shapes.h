// Shapes of operators that LibTorch has no meta kernel for: they run on CPU tensors of the same shapes, and the meta
// device gets the shapes of the results. Results are those of CPU kernels, which may save other tensors than CUDA's.
#pragma once

namespace memtune::step {

// Registers them for the meta device, once. Operators whose shapes depend on values are left out. Thread: one at a
// time, before the meta device runs anything.
void take_missing_shapes_from_cpu_kernels();

}  // namespace memtune::step
