// The allocator behind the CPU device's memory figures: it counts the bytes that CPU tensors hold and refuses what does
// not fit under a cap. Only bytes asked for are counted, so figures are exact. Safe from any thread.
//
// Not seen: memory that tensors were given (from_blob), scratch of the math libraries, standard containers.
#pragma once

#include <cstdint>

namespace memtune::device::cpu_allocator {

// Makes it LibTorch's CPU allocator. Tensors made before are not counted.
void install();

int64_t allocated();  // bytes now
int64_t peak();       // most bytes since the start or reset_peak()
void reset_peak();

// At most `bytes` from now on (0: no cap). An allocation beyond it throws c10::OutOfMemoryError, whose message has the
// bytes asked for, the bytes allocated and the cap; the counters stay as they were.
void set_cap(int64_t bytes);

}  // namespace memtune::device::cpu_allocator
