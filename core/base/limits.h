// Resource limits of this process (ulimit), as text for error messages; "" if the limit is not set.
#pragma once

#include <cstdint>
#include <string>

namespace memtune {

std::string file_size_limit();  // "a file that this process writes may have 1 MiB (ulimit -f)"
std::string memory_limit();     // "this process may hold 16 GiB of its own (ulimit -d)"

// Host memory in bytes that this process can allocate without taking it from others. Respects the cgroup limit of a
// container. Returns INT64_MAX if the system does not report it.
int64_t available_memory_bytes();

}  // namespace memtune
