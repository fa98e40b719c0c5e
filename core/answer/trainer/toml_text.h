// Reads TOML with toml++, and edits single settings in its text. Edits keep all other text unchanged.
//
// Every function throws UsageError with `name`, the file, and the line, for text that is no TOML and for nesting deeper
// than kMaxNesting.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "core/answer/trainer/config_key_line_numbers.h"

namespace memtune::trainer {

// Dates, times, infinity and NaN are text.
nlohmann::json read_whole_toml(const std::string& text, const std::string& name);

ConfigKeyLineNumbers lines_of_toml(const std::string& text, const std::string& name);

// Sets `path` to `value`: in place, else after its table's last setting, else in a new table at the end. No value
// removes the setting. The result is read again: it differs from `text` in this setting only. Also throws UsageError if
// such an edit is not possible, and for null and mappings as values.
std::string put_in_toml(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, const std::string& name);

}  // namespace memtune::trainer
