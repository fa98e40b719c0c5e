// Why: ctest starts each case by its name, through a doctest filter that CMake wrote. ';', brackets and backslashes
// truncate that filter or its file, so the case would never run. '*' and '?' would match other cases too.
#include <doctest/doctest.h>

#include <regex>

#include "tests/structure/sources.h"
namespace memtune::tests::case_names_test {
namespace {

constexpr const char* kMangled = ";[]\\*?";

// Joins adjacent string literals, like the compiler.
std::vector<std::string> case_names(const std::string& text) {
  static const std::regex kCase(R"rx(\bTEST_CASE\w*\s*\((?:\s*\w+\s*,)?((?:\s*"(?:[^"\\\n]|\\.)*")+))rx");
  static const std::regex kLiteral(R"rx("((?:[^"\\\n]|\\.)*)")rx");
  std::vector<std::string> names;
  for (std::sregex_iterator match(text.begin(), text.end(), kCase), end; match != end; ++match) {
    const std::string literals = (*match)[1];
    std::string& name = names.emplace_back();
    for (std::sregex_iterator literal(literals.begin(), literals.end(), kLiteral); literal != end; ++literal)
      name += (*literal)[1];
  }
  return names;
}

long uses(const std::string& text) {
  static const std::regex kUse(R"(\bTEST_CASE\w*\s*\()");
  return std::distance(std::sregex_iterator(text.begin(), text.end(), kUse), std::sregex_iterator());
}

TEST_CASE("no case has a name that ctest or a filter mangles") {
  for (const Source& source : read_sources({"tests"}, {".cpp", ".h"})) {
    const std::vector<std::string> names = case_names(source.text);
    CHECK_MESSAGE(std::ssize(names) == uses(source.text), source.path << " has a case whose name is not read here");
    for (const std::string& name : names)
      CHECK_MESSAGE(name.find_first_of(kMangled) == std::string::npos, source.path << ": rename '" << name << "'");
  }
}

TEST_CASE("names of cases are read from all forms of the macro") {
  const std::string macro = std::string("TEST_") + "CASE";
  CHECK(case_names(macro + "(\"one\") {}\n" + macro + "(\n    \"two \"\n    \"and three\") {}\n" + macro +
                   "_FIXTURE(Fixture, \"four; or \\\"five\\\"\") {}\n") ==
        std::vector<std::string>{"one", "two and three", "four; or \\\"five\\\""});
  CHECK(uses(macro + "(\"one\")\n" + macro + "(kName)") == 2);
}

}  // namespace
}  // namespace memtune::tests::case_names_test
