// Access to the CUDA events of a CUDA device, for the other sources of the module.
#pragma once

#include <cuda_runtime.h>

#include "core/base/device/device.h"

namespace memtune::device {

cudaEvent_t handle_of(const StreamEvent& event);  // valid while `event` exists

}  // namespace memtune::device
