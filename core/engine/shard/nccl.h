// Collectives for CUDA tensors over LibTorch's NCCL: a function that the CUDA module exports
// (core/base/device/cuda_module.h).
#pragma once

#include "core/engine/shard/collectives.h"

namespace c10d {
class Store;
}

// The caller owns the result, which uses settings.device. All ranks must be connected to `store`. Throws DeviceError if
// the module was built without NCCL's headers, and what c10d throws.
extern "C" memtune::shard::Collectives* memtune_connect_by_nccl(const memtune::shard::ProcessGroupSettings& settings,
                                                                c10d::Store& store);
