// Measures what planning for a machine takes: config::MachineProfile, of the device and host at hand.
#pragma once

#include <functional>
#include <string>

#include "core/config/machine_profile.h"
#include "core/device/device.h"

namespace memtune::profiler {

// Products of large square matrices of each dtype, copies within the device and over the link; a minute at most, and a
// few GiB of device memory. `progress` hears lines for people. DeviceError.
config::MachineProfile probe_machine(device::Device& device, const std::function<void(const std::string&)>& progress);

}  // namespace memtune::profiler
