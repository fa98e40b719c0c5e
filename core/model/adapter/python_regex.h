// Regular expressions of Python's re, as peft's files contain them, compiled by PCRE2.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace memtune::model {

class PythonRegex {
 public:
  // `before` and `behind` are put around the expression, in PCRE2's syntax. Throws UsageError that begins with `what`
  // for an expression that is invalid, longer than 4096 characters or deeper than 100 groups, and for the flags L and x
  // and escapes of Unicode names.
  PythonRegex(const std::string& expression, const std::string& what, const std::string& before = "",
              const std::string& behind = "");
  ~PythonRegex();

  // Whether the whole text matches, as in re.fullmatch. Throws UsageError if that takes too long.
  bool matches(const std::string& text) const;
  // What the last group of a match has; none: the text does not match.
  std::optional<std::string> last_group(const std::string& text) const;

 private:
  struct Compiled;

  std::unique_ptr<Compiled> compiled_;
  std::string expression_, what_;
};

}  // namespace memtune::model
