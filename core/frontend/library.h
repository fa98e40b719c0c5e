// Operators that are not LibTorch's own: shared objects that register them when they are loaded.
#pragma once

#include <string>
#include <vector>

namespace memtune::frontend {

// Each once; they stay. UsageError with the loader's reason.
void load_libraries(const std::vector<std::string>& paths);

}  // namespace memtune::frontend
