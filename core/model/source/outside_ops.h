// Detects operators with effects outside a training step: files, other processes, the network, memory other than their
// tensors'. A model that uses one is refused unless it is trusted.
#pragma once

#include <string_view>

namespace memtune::model {

// `op` has its namespace, for example "aten::save".
bool reaches_outside(std::string_view op);

}  // namespace memtune::model
