// Collectives of a CUDA device's tensors, over LibTorch's NCCL: a function of the CUDA module
// (core/device/cuda_module.h).
#pragma once

#include "core/shard/collectives.h"

namespace c10d {
class Store;
}

// The caller's. The device is the settings'; the ranks have met at the store. DeviceError where the module was built
// without NCCL's headers; what c10d throws.
extern "C" memtune::shard::Collectives* memtune_connect_by_nccl(const memtune::shard::GroupSettings& settings,
                                                                c10d::Store& store);
