// For others in the module: what a CUDA device's events are to the driver.
#pragma once

#include <cuda_runtime.h>

#include "core/device/device.h"

namespace memtune::device {

cudaEvent_t handle_of(const Event& event);  // valid as long as the event is there

}  // namespace memtune::device
