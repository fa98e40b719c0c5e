// The allocator for the CPU device's memory numbers: it counts the memory of CPU tensors in a CappedMemoryCounter.
// Thread: any.
//
// Not counted: external memory of tensors (from_blob), scratch of math libraries, standard containers.
#pragma once

#include "core/base/device/capped_memory_counter.h"

namespace memtune::device {

// Makes it LibTorch's CPU allocator and returns the process's counter. Earlier tensors are not counted. An allocation
// above the counter's cap throws c10::OutOfMemoryError with requested bytes, allocated bytes and cap.
CappedMemoryCounter& install_cpu_allocator();

}  // namespace memtune::device
