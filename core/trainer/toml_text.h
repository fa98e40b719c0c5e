// TOML as a person wrote it: settings in tables of lines are read and put, all else stays as it is.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

namespace memtune::trainer {

// What text of one line does not tell (dates, text of several lines) comes as that text. UsageError naming `name`, the
// file, for a line that is none of TOML.
nlohmann::json read_whole_toml(const std::string& text, const std::string& name);
// nullptr: there is no such setting.
const nlohmann::json* find_in_toml(const nlohmann::json& whole, std::span<const std::string> path,
                                   const std::string& name);
std::optional<nlohmann::json> read_toml(const std::string& text, std::span<const std::string> path,
                                        const std::string& name);

// The last key of `path` in the table of the others: in its place, else behind the last of that table, else in a table
// of its own at the end; no value: it is taken out. UsageError as read_whole_toml(), and where a value is no scalar or
// list of them, or the table is written in braces.
std::string put_in_toml(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, const std::string& name);

}  // namespace memtune::trainer
