// Parses and prints byte counts, for all of memtune. Printing uses binary units only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memtune {

// Accepts "16GiB", "1.5 GiB", "80GB" (decimal), "64M" (binary) and "123" (bytes). Throws UsageError for negative
// counts, counts above kMaxBytes and other text. The message quotes `text` and shows valid forms.
int64_t parse_bytes(std::string_view text);

// "36.26 GiB", "512 KiB", "17 B": three or four significant digits, exact for whole units.
std::string format_bytes(int64_t bytes);

// The smallest multiple of `multiple` that is not less than `number`. Neither may be negative.
constexpr int64_t round_up(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

}  // namespace memtune
