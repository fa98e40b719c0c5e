// How a rank keeps the shards of trained parameters. Frozen parameters keep their dtype.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "core/base/device/device.h"
#include "core/plan/schedule/parameter_gather_scheduler.h"

namespace memtune::shard {

struct ReshardDtypeAndOffloadOptions {
  schedule::ReshardPolicy reshard = schedule::ReshardPolicy::always;
  std::optional<at::ScalarType> dtype = {};         // of shards and their gradients; nullopt: the parameters' dtype
  std::optional<at::ScalarType> reduce_dtype = {};  // of gradients during the reduction; nullopt: the same
  device::Device* host_of = nullptr;                // host memory for all shards; null: they stay on the device
};

}  // namespace memtune::shard
