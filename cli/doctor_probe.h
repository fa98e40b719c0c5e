// memtune doctor --probe: the machine measured, as a profile that memtune plan --machine FILE takes.
#pragma once

#include <string>

#include "cli/console.h"
#include "core/config/machine_profile.h"

namespace memtune::cli {

// Measures `device`, and the disk of the folder `scratch` ("": none). UsageError, DeviceError, IoError.
config::MachineProfile probe_machine(const std::string& device, const std::string& scratch,
                                     const ConsoleFlags& console);

std::string machine_text(const config::MachineProfile& machine);

std::string machine_json(const config::MachineProfile& machine);

}  // namespace memtune::cli
