// Loads shared objects that register operators of other libraries.
#pragma once

#include <string>
#include <vector>

namespace memtune::frontend {

// Loads each once; they stay loaded. Throws UsageError with the loader's message.
void load_libraries(const std::vector<std::string>& paths);

}  // namespace memtune::frontend
