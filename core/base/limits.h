// Limits that the system sets this process, in words for whoever ran into one. "": none is set.
#pragma once

#include <cstdint>
#include <string>

namespace memtune {

std::string file_size_limit();  // "a file that this process writes may have 1 MiB (ulimit -f)"
std::string memory_limit();     // "this process may hold 16 GiB of its own (ulimit -d)"

// That the system could give now without taking it from other processes; the most that can be counted: it does not
// tell.
int64_t available_memory_bytes();

}  // namespace memtune
