// The allocator behind the CPU device's memory figures: what CPU tensors hold goes through a MemoryCounter. Safe from
// any thread.
//
// Not seen: memory that tensors were given (from_blob), scratch of the math libraries, standard containers.
#pragma once

#include "core/device/memory_counter.h"

namespace memtune::device {

// Makes it LibTorch's CPU allocator and returns its counter, the process's only one. Tensors made before are not
// counted. An allocation beyond the counter's cap throws c10::OutOfMemoryError, whose message has the bytes asked for,
// the bytes allocated and the cap.
MemoryCounter& install_cpu_allocator();

}  // namespace memtune::device
