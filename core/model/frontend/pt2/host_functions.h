// Python functions of numbers, which an exported program applies to tensor sizes.
#pragma once

#include <functional>
#include <string>

#include "core/model/program/program.h"

namespace memtune::frontend {

using HostFunction = std::function<void(program::Stack&)>;

// By its name in the program, "_operator.floordiv"; null if memtune has none. Takes Python's arguments and rounds like
// Python.
const HostFunction* find_host_function(const std::string& target);

}  // namespace memtune::frontend
