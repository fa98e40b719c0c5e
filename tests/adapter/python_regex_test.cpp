#include "core/model/adapter/python_regex.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
namespace memtune::model::python_regex_test {
namespace {

std::string refusal(const std::string& pattern) {
  try {
    parse_python_pattern(pattern, "x");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool matches(const std::string& pattern, const std::string& text) {
  return std::regex_match(text, parse_python_pattern(pattern, "x").regex());
}

}  // namespace

TEST_CASE("a pattern matches whole texts as Python's re.fullmatch does") {
  struct Case {
    const char* pattern;
    const char* text;
    bool matches;
  };
  // Results of re.fullmatch in Python 3.11.
  const std::vector<Case> cases = {{R"(.*\.(?P<layer>\d+)\.mlp\.(gate|up)_proj)", "layers.11.mlp.up_proj", true},
                                   {R"(.*\.(?P<layer>\d+)\.mlp\.(gate|up)_proj)", "layers.a.mlp.up_proj", false},
                                   {R"((?P<a>x+)-(?P=a)0)", "xx-xx0", true},
                                   {R"((?P<a>x+)-(?P=a)0)", "xx-x0", false},
                                   {R"(\Alayers\..*q_proj\Z)", "layers.0.q_proj", true},
                                   {R"(\Alayers\..*q_proj\Z)", "layers.0.q_proj.", false},
                                   {R"((?i)LAYERS\.0)", "layers.0", true},
                                   {R"(LAYERS\.0)", "layers.0", false},
                                   {R"((?s)a.b)", "a.b", true},
                                   {R"(a{,2}b)", "aab", true},
                                   {R"(a{,2}b)", "aaab", false},
                                   {R"(a{2,}?b)", "aaab", true},
                                   {R"(a{x}b)", "a{x}b", true},
                                   {R"(a{}b)", "a{}b", true},
                                   {R"([]a]+)", "a]", true},
                                   {R"([^]a]+)", "b[", true},
                                   {R"([^]a]+)", "b]", false},
                                   {R"([[:alpha:]]+)", "a]]", true},
                                   {R"([[:alpha:]]+)", "b]", false},
                                   {R"([\w-]+\.[a-]+)", "q-1.-a", true},
                                   {R"(a(?#any number)\d+)", "a12", true},
                                   {R"(layers\.(?!0\.)\d+\.x)", "layers.0.x", false},
                                   {R"(layers\.(?!0\.)\d+\.x)", "layers.10.x", true},
                                   {R"(a|ab)", "ab", true},
                                   {R"(q\_proj\-\/)", "q_proj-/", true},
                                   {R"(a]b}c)", "a]b}c", true},
                                   {R"((x+)-\1)", "xx-xx", true},
                                   {R"((x+)-\1)", "xx-x", false},
                                   {R"((x)(b)(c)(d)(e)(f)(g)(h)(i)(j)\109)", "xbcdefghijj9", true},
                                   {R"((x)(b)(c)(d)(e)(f)(g)(h)(i)(j)\1a)", "xbcdefghijxa", true}};
  for (const auto& [pattern, text, expected] : cases) {
    const std::string where = std::string(pattern) + " on " + text;
    CAPTURE(where);
    CHECK(matches(pattern, text) == expected);
  }
}

TEST_CASE("constructs that std::regex lacks are refused by name and invalid patterns as such") {
  CHECK(refusal("(?<=a)b") == "x: '(?<=a)b' has a group that looks behind, which is not supported");
  CHECK(refusal("(?<!a)b") == "x: '(?<!a)b' has a group that looks behind, which is not supported");
  CHECK(refusal("(?>a)b") == "x: '(?>a)b' has a group that is atomic, which is not supported");
  CHECK(refusal("(a)(?(1)b|c)") == "x: '(a)(?(1)b|c)' has a group that depends on another, which is not supported");
  CHECK(refusal("(?i:a)") == "x: '(?i:a)' has a group with flags, (?i:, which is not supported");
  CHECK(refusal("a++") == "x: 'a++' has a possessive repeat, ++, which is not supported");
  CHECK(refusal("a**") == "x: 'a**' is no regular expression: a repeat is repeated");
  CHECK(refusal("\\q") == "x: '\\q' has the escape, \\q, which is not supported");
  CHECK(refusal("(a)\\2") == "x: '(a)\\2' is no regular expression: it has no group 2");
  CHECK(refusal("(a)\\4444444444444444444") ==
        "x: '(a)\\4444444444444444444' has an octal escape, \\444, which is not supported");
  CHECK(refusal("(a)\\99999999999999999999").find("it has no group 99") != std::string::npos);
  CHECK(refusal("(a\\1)").find("is no regular expression") != std::string::npos);
  CHECK(refusal("(a") == "x: '(a' is no regular expression: a group has no end");
  CHECK(refusal("a)") == "x: 'a)' is no regular expression: a group has no beginning");
  CHECK(refusal("[a") == "x: '[a' is no regular expression: a class has no end");
  CHECK(refusal("a\\") == "x: 'a\\' is no regular expression: it ends with a backslash");
  CHECK(refusal("(?P=a)").find("no group is called 'a'") != std::string::npos);
  CHECK(refusal("*").starts_with("x: '*' is no regular expression"));
  CHECK(refusal(std::string(5000, 'a')).find("4096 characters") != std::string::npos);
  CHECK(refusal(std::string(101, '(') + std::string(101, ')')).find("100 groups") != std::string::npos);
}

}  // namespace memtune::model::python_regex_test
