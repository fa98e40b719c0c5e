// What the viewer takes beside runs and traces: `memtune` hands it on and completes it, memtune-view reads it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace memtune::config {

struct ViewOption {
  std::string name, value, help;   // "--theme", "NAME", "dark or light (default: dark)"
  std::vector<std::string> words;  // the only values there are; empty: others too
};

std::span<const ViewOption> view_options();

inline constexpr char kViewPaths[] = "one or two sweeps or traces (default: ./memtune-run)";

}  // namespace memtune::config
