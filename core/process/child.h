// What starting another process takes, however it is watched then.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "core/base/file.h"

namespace memtune::process {

struct Pipe {
  Descriptor read, write;  // closed by exec
  Pipe();                  // IoError
};

// As exec takes them; they live as long as `strings` do.
std::vector<char*> c_strings(const std::vector<std::string>& strings);

// Between fork and exec: what this process handles and blocks must not reach the program.
void forget_signals();

// A value that the other end wrote whole; false when that was closed before. Without memory, so between fork and exec
// as well.
template <typename Value>
bool receive(int file, Value& value) {
  ssize_t count = 0;
  do count = ::read(file, &value, sizeof value);
  while (count < 0 && errno == EINTR);
  return count == sizeof value;
}

template <typename Value>
void tell(int file, const Value& value) {
  [[maybe_unused]] const ssize_t told = ::write(file, &value, sizeof value);
}

}  // namespace memtune::process
