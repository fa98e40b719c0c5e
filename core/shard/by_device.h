// Collectives of two kinds of tensors: those on the CPU, and those on a device.
#pragma once

#include <memory>

#include "core/shard/collectives.h"

namespace memtune::shard {

// Of the same ranks. What compute stood for is what the device did.
std::unique_ptr<Collectives> by_device(std::unique_ptr<Collectives> of_cpu, std::unique_ptr<Collectives> of_device);

}  // namespace memtune::shard
