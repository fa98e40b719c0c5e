// Parses values of flags. All messages name the flag, the value and what is allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace memtune::cli {

// All throw UsageError.
int64_t integer_flag(const std::string& flag, const std::string& text, int64_t least, int64_t most);
std::vector<int64_t> integers_flag(const std::string& flag, const std::vector<std::string>& texts);  // "1,2" "4"; >= 1
int64_t bytes_flag(const std::string& flag, const std::string& text);                                // > 0
std::chrono::milliseconds duration_flag(const std::string& flag, const std::string& text);  // "90", "90s", "5m", "1h"
std::string choice_flag(const std::string& flag, const std::string& text, const std::vector<std::string>& choices);
// Returns one of `choices`, which are canonical names. Other names are accepted: bf16 is bfloat16.
std::string dtype_flag(const std::string& flag, const std::string& text, const std::vector<std::string>& choices);
// File names must be UTF-8, because they are stored as JSON.
void check_utf8(const std::string& flag, const std::string& path);

}  // namespace memtune::cli
