// Byte counts: the one place that parses and prints them. Printing uses binary units only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memtune {

// "16GiB", "1.5 GiB", "80GB" (decimal), "64M" (binary), "123" (bytes). Throws UsageError that quotes `text` and
// shows valid forms; negative counts and counts over 2^62 are refused.
int64_t parse_bytes(std::string_view text);

// "36.26 GiB", "512 KiB", "17 B": three or four significant digits, exact for whole units.
std::string format_bytes(int64_t bytes);

// The least multiple that is no smaller.
constexpr int64_t round_up(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

}  // namespace memtune
