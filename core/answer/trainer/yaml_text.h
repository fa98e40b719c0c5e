// Reads YAML with libfyaml, as PyYAML's safe_load reads it, and edits single settings in its text, at any depth. Edits
// keep all other text: comments, order, quotes. JSON is edited as YAML in braces.
//
// Every function throws UsageError with `name`, the file, and the line: for text that is no YAML, a tag other than
// those of scalars, tag directives, several documents, an alias of a later or surrounding value, nesting deeper than
// kMaxNesting, more than 1 000 000 values, 256 blank lines in turn, or aliases that expand to more than
// 64 MiB.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "core/answer/trainer/config_key_line_numbers.h"

namespace memtune::trainer {

// The mapping that the text is; empty for an empty text. Aliases and merges ("<<") are resolved, of a repeated key the
// last counts. Keys that are no text are written as in JSON: "1", "true".
nlohmann::json read_whole_yaml(const std::string& text, const std::string& name);

// The text of a command's argument: a list, a mapping or a quoted text in YAML, otherwise a scalar.
nlohmann::json read_value(const std::string& text);

// The keys as they are written: without those that come from an alias or a merge.
ConfigKeyLineNumbers lines_of_yaml(const std::string& text, const std::string& name);

// Replaces the setting's value, or appends the setting to its mapping; no value removes it. `path` has the keys from
// outer to inner. The result is read again: it differs from `text` in this setting only. Throws UsageError if such an
// edit is not possible, for example in a value that aliases share.
std::string put_in_yaml(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, const std::string& name);
std::string put_in_json(const std::string& text, std::span<const std::string> path,
                        const std::optional<nlohmann::json>& value, const std::string& name);

}  // namespace memtune::trainer
