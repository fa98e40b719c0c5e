// Command-line options of the viewer. `memtune` passes them on and completes them; memtune-view parses them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace memtune {

struct ViewCommandOption {
  std::string name, value, help;   // "--theme", "NAME", "dark or light (default: dark)"
  std::vector<std::string> words;  // all valid values; empty: any value
};

std::span<const ViewCommandOption> view_options();

inline constexpr char kViewPaths[] = "one or two sweeps or traces (default: ./memtune-run)";

}  // namespace memtune
