// How a rank keeps its shards of what is trained. What is frozen keeps its dtype.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "core/device/device.h"
#include "core/gather/unit_schedule.h"

namespace memtune::shard {

struct ShardSettings {
  gather::Reshard reshard = gather::Reshard::always;
  std::optional<at::ScalarType> dtype = {};         // of shards and their gradients; none: the parameters'
  std::optional<at::ScalarType> reduce_dtype = {};  // of gradients while they are reduced; none: the parameters'
  device::Device* host_of = nullptr;                // all shards lie in its host memory; null: where the parameters do
};

}  // namespace memtune::shard
