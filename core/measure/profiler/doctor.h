// Checks whether this machine and this build can run trials, by testing each part.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/measure/profiler/device_activity_profiler.h"

namespace memtune::profiler {

enum class DoctorStatus { ok, warn, fail };
std::string to_string(DoctorStatus status);

struct DoctorCheck {
  std::string name;
  DoctorStatus status = DoctorStatus::ok;
  std::string detail;  // what was found, and the consequence of a lack
  std::string fix;     // "" if there is nothing to do
};

// `device`: as for make_device. A lack is a failed check, not an exception. Throws UsageError for an unknown name.
std::vector<DoctorCheck> run_doctor(const std::string& device);

// Warns on a GPU if memtune's engines never ran on one with this release of PyTorch.
DoctorCheck check_libtorch(const std::string& version, bool on_cpu);

// Compares the copy rates of cuda:0, cuda:1 and so on, each alone and all together. Warns if a link then has less than
// nine tenths of its rate.
DoctorCheck check_links_together(std::span<const LinkBandwidth> alone, std::span<const LinkBandwidth> together);

// Version of the kernel module, "580.65.06"; "" without one.
std::string driver_release();

}  // namespace memtune::profiler
