// Values of a configuration as text: scalars as YAML 1.1 has them (which JSON's are among), and collections in
// brackets, into which a setting can be put while all else stays as the person wrote it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace memtune::trainer {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // that a file may begin with

// What cannot be known from the text alone (an alias, a tag, an anchor, text of several lines, brackets that do not
// match) comes back as that text. `assign` stands between a key and its value: "=" in TOML.
nlohmann::json read_value(std::string_view text, char assign = ':');

// One line. `json`: as JSON has it; else as YAML, text without quotes where that reads as the same text.
std::string write_value(const nlohmann::json& value, bool json);

// `text` is a mapping in braces. The setting at `path`, of keys from outside to inside, takes the place of the one that
// is there, or comes behind the last of its mapping; no value: it is taken out. UsageError where `path` goes through
// something else than a mapping, or the text cannot be read.
std::string put_in_flow(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, bool json);

}  // namespace memtune::trainer
