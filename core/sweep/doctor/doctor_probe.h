// memtune doctor --probe: measures the machine and prints a profile for memtune plan --machine FILE.
#pragma once

#include <functional>
#include <string>

#include "core/plan/facts/machine_profile.h"

namespace memtune::sweep {

// Measures `device` and the disk of the folder `scratch` ("": none). Throws UsageError, DeviceError, IoError.
plan::MachineProfile probe_machine(const std::string& device, const std::string& scratch,
                                   const std::function<void(const std::string&)>& progress);

std::string machine_text(const plan::MachineProfile& machine);

std::string machine_json(const plan::MachineProfile& machine);

}  // namespace memtune::sweep
