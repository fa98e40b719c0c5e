// Helpers to start a child process: pipe, argument vector, signal reset and messages over a pipe.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "core/base/file.h"

// For functions that run between fork and exec. ASan allocates before each call that does not return, such as _exit. In
// the child that waits forever if another thread held the allocator's lock during the fork.
#define MEMTUNE_NO_ASAN [[gnu::no_sanitize_address]]

namespace memtune::process {

struct Pipe {
  FileDescriptor read, write;  // both ends are close-on-exec
  Pipe();                      // throws IoError
};

// Null-terminated argument vector for exec. The pointers are valid as long as `strings` is alive and unchanged.
std::vector<char*> c_strings(const std::vector<std::string>& strings);

// Resets all signal handlers and the signal mask. The child calls it between fork and exec, so that the program does
// not inherit them.
void reset_signals();

// Reads one value from `file`. Returns false if the other end closed before it wrote the whole value. Allocates no
// memory, so it is safe between fork and exec.
template <typename Value>
bool receive(int file, Value& value) {
  ssize_t count = 0;
  do count = ::read(file, &value, sizeof value);
  while (count < 0 && errno == EINTR);
  return count == sizeof value;
}

// Writes one value to `file`. Write errors are ignored. Allocates no memory.
template <typename Value>
void write_value(int file, const Value& value) {
  [[maybe_unused]] const ssize_t told = ::write(file, &value, sizeof value);
}

}  // namespace memtune::process
