// Python's own functions of numbers, which an exported program calls for the sizes of its tensors.
#pragma once

#include <functional>
#include <string>

#include "core/program/program.h"

namespace memtune::frontend {

using HostFunction = std::function<void(program::Stack&)>;

// By its name in the program, "_operator.floordiv"; null: memtune has none. It takes what Python's takes and rounds as
// Python does.
const HostFunction* find_host_function(const std::string& target);

}  // namespace memtune::frontend
