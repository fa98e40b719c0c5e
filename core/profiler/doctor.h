// What this machine and this build can do for trials, by trying it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/profiler/profiler.h"

namespace memtune::profiler {

enum class Status { ok, warn, fail };
std::string to_string(Status status);

struct Check {
  std::string name;
  Status status = Status::ok;
  std::string detail;  // what was found, and what a lack costs
  std::string fix;     // "" when there is nothing to do
};

// `device` as make_device takes it. Never throws for a lack: that is a check that failed. UsageError for an unknown
// name.
std::vector<Check> run_doctor(const std::string& device);

// Of cuda:0, cuda:1 and so on: what each link carries alone, and while all of them copy. A warning where one carries
// less than nine tenths then.
Check check_links_together(std::span<const Link> alone, std::span<const Link> together);

// "580.65.06" of the kernel's module; "" without one.
std::string driver_release();

}  // namespace memtune::profiler
