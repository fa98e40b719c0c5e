// The lines in which a config's settings begin, and comments above them.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace memtune::trainer {

struct ConfigKeyLineNumbers {
  size_t line = 0;  // from 1; 0: of the whole text
  std::map<std::string, ConfigKeyLineNumbers> below;

  // The line of the setting. If it is missing, the line of the innermost mapping on its path that exists; 0: none.
  size_t line_of(std::span<const std::string> path) const;
};

// Puts `comments` above line `line` and removes those of an earlier export; 0: at the end. Only for forms with "#"
// comments.
std::string with_comments(const std::string& text, const std::vector<std::string>& comments, size_t line);

// Sets `path` in `whole`, or removes it, as an edit of the config's text does. False if `path` goes through something
// other than a mapping.
bool put_in_value(nlohmann::json& whole, std::span<const std::string> path, const std::optional<nlohmann::json>& value);

// Throws UsageError: a line of the file `name` cannot be read; a setting in it cannot be edited.
[[noreturn]] void refuse_line(const std::string& name, size_t line, const std::string& why);
[[noreturn]] void refuse_edit(const std::string& name, std::span<const std::string> path, const std::string& why);

}  // namespace memtune::trainer
