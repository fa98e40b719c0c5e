// Combines the collectives for CPU tensors with those for device tensors.
#pragma once

#include <memory>

#include "core/engine/shard/collectives.h"

namespace memtune::shard {

// Both must have the same ranks. stood() counts only waits for `of_device`.
std::unique_ptr<Collectives> by_device(std::unique_ptr<Collectives> of_cpu, std::unique_ptr<Collectives> of_device);

}  // namespace memtune::shard
