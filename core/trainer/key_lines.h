// Where in a config's text its settings stand, whatever its form is; and comments above them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace memtune::trainer {

// The line, from 1 on, in which the setting begins, else the one of the mapping that it would be in; 0: neither is
// there.
size_t line_of(const std::string& text, std::span<const std::string> path);

// `comments` stand above the first of the settings, in the place of those of an earlier export. For forms whose
// comments begin with "#".
std::string with_comments(const std::string& text, const std::vector<std::string>& comments,
                          const std::vector<std::vector<std::string>>& paths);

}  // namespace memtune::trainer
