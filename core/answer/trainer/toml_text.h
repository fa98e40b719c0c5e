// Reads and edits settings in TOML text. Edits keep all other lines unchanged.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

namespace memtune::trainer {

// Values that one line does not define (dates, multi-line text) are returned as text. Throws UsageError with `name`,
// the file, for a line that is not TOML.
nlohmann::json read_whole_toml(const std::string& text, const std::string& name);
// nullptr if the setting is missing.
const nlohmann::json* find_in_toml(const nlohmann::json& whole, std::span<const std::string> path,
                                   const std::string& name);
std::optional<nlohmann::json> read_toml(const std::string& text, std::span<const std::string> path,
                                        const std::string& name);

// Sets `path` to `value`: in place, else after its table's last setting, else in a new table at the end. No value
// removes the setting. Throws UsageError like read_whole_toml(). Also throws for a value that is no scalar or list of
// scalars, and for a table in braces.
std::string put_in_toml(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, const std::string& name);

}  // namespace memtune::trainer
