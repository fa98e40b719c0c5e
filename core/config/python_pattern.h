// Regular expressions as Python's re has them, which files of peft hold, for std::regex: named groups, \A and \Z, flags
// in front, {,n} and brackets are written as ECMAScript has them.
#pragma once

#include <regex>
#include <string>

namespace memtune::config {

struct PythonPattern {
  std::string ecmascript;
  bool ignores_case = false;

  std::regex regex(const std::string& before = "", const std::string& behind = "") const;
};

// UsageError that begins with `what` for a text that is no regular expression, and for what std::regex cannot do:
// looking behind, atomic groups, possessive repeats, conditions, flags of a part.
PythonPattern parse_python_pattern(const std::string& text, const std::string& what);

}  // namespace memtune::config
