// Measures what planning needs to know about the device and host at hand: plan::MachineProfile.
#pragma once

#include <functional>
#include <string>

#include "core/base/device/device.h"
#include "core/plan/facts/machine_profile.h"

namespace memtune::profiler {

// Measures products of large square matrices of each dtype, and copies within the device and over the link. It takes a
// minute at most, and a few GiB of device memory. `progress` gets lines for the user. Throws DeviceError.
plan::MachineProfile probe_machine(device::Device& device, const std::function<void(const std::string&)>& progress);

}  // namespace memtune::profiler
