// Reads and edits values in a config's text: YAML 1.1 scalars (a superset of JSON's) and collections in brackets. Edits
// keep all other text unchanged.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace memtune::trainer {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // optional at the start of a file

// A value that needs more than this text is returned as text: alias, tag, anchor, multi-line text, unmatched brackets.
// `assign` is the character between key and value: "=" in TOML.
nlohmann::json read_value(std::string_view text, char assign = ':');

// One line. With `json` in JSON syntax; otherwise as YAML, without quotes if that reads back as the same text.
std::string write_value(const nlohmann::json& value, bool json);

// `text` is a mapping in braces, `path` the keys from outer to inner. Replaces the setting's value or appends the
// setting to its mapping; no value removes it. Throws UsageError if `path` goes through something other than a mapping,
// or if the text is unreadable.
std::string put_in_flow(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, bool json);

// Edits by lines fail for some YAML and TOML. Throws UsageError with `name`, the file, unless `edited`.
void check_edit(bool edited, std::span<const std::string> path, const std::string& name);

}  // namespace memtune::trainer
