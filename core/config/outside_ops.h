// Operators that reach beyond a training step: files, other processes, the network, other memory than their tensors'. A
// model that uses one is refused unless its owner is trusted.
#pragma once

#include <string_view>

namespace memtune::config {

// `op` with its namespace, "aten::save".
bool reaches_outside(std::string_view op);

}  // namespace memtune::config
