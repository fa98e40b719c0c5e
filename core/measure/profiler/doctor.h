// Checks whether this machine and this build can run trials, by testing each part.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/measure/profiler/profiler.h"

namespace memtune::profiler {

enum class Status { ok, warn, fail };
std::string to_string(Status status);

struct Check {
  std::string name;
  Status status = Status::ok;
  std::string detail;  // what was found, and the consequence of a lack
  std::string fix;     // "" if there is nothing to do
};

// `device`: as for make_device. A lack is a failed check, not an exception. Throws UsageError for an unknown name.
std::vector<Check> run_doctor(const std::string& device);

// Compares the copy rates of cuda:0, cuda:1 and so on, each alone and all together. Warns if a link then has less than
// nine tenths of its rate.
Check check_links_together(std::span<const Link> alone, std::span<const Link> together);

// Version of the kernel module, "580.65.06"; "" without one.
std::string driver_release();

}  // namespace memtune::profiler
