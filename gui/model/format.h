// Formats times and rates for people. Bytes: core/base/bytes.h.
#pragma once

#include <cstdint>
#include <string>

namespace memtune::gui {

// "12.3 ms", "850 ns": three digits. `resolution_ns` is the time of one pixel; more digits are shown if it resolves
// them.
std::string format_time(double ns, double resolution_ns = 0);
std::string format_rate(int64_t bytes, int64_t ns);  // "54.9 GB/s"; "" if there is no rate
std::string format_count(size_t count);              // "12 345"

}  // namespace memtune::gui
