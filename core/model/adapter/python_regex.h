// Translates regular expressions of Python's re, as peft's files contain them, to ECMAScript for std::regex. That
// covers named groups, \A and \Z, leading flags, {,n} and brackets.
#pragma once

#include <regex>
#include <string>

namespace memtune::model {

struct PythonRegex {
  std::string ecmascript;
  bool ignores_case = false;

  std::regex regex(const std::string& before = "", const std::string& behind = "") const;
};

// Throws UsageError that begins with `what` for an invalid expression. Also for features that std::regex lacks:
// look-behind, atomic groups, possessive quantifiers, conditionals, flags of a group.
PythonRegex parse_python_pattern(const std::string& text, const std::string& what);

}  // namespace memtune::model
