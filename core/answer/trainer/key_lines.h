// Finds the lines of settings in a config's text, in any form, and puts comments above them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace memtune::trainer {

// The line in which the setting begins, from 1. If the setting is missing, the line of the innermost mapping on its
// path that exists; 0: none exists.
size_t line_of(const std::string& text, std::span<const std::string> path);

// Puts `comments` above the first of the settings and removes those of an earlier export. Only for forms with "#"
// comments.
std::string with_comments(const std::string& text, const std::vector<std::string>& comments,
                          const std::vector<std::vector<std::string>>& paths);

}  // namespace memtune::trainer
