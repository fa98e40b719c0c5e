// Used if NCCL's headers are missing.
#include "core/base/error.h"
#include "core/engine/shard/nccl.h"

extern "C" __attribute__((visibility("default"))) memtune::shard::Collectives* memtune_connect_by_nccl(
    const memtune::shard::ProcessGroupSettings& /*settings*/, c10d::Store& /*store*/) {
  throw memtune::DeviceError(
      "several ranks on CUDA devices need NCCL, whose headers were missing when memtune was built: install "
      "nvidia-nccl-cu13 beside LibTorch and build again, or use --device cpu");
}
