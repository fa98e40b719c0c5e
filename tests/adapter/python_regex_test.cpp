#include "core/model/adapter/python_regex.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
namespace memtune::model::python_regex_test {
namespace {

std::string refusal(const std::string& pattern) {
  try {
    PythonRegex(pattern, "x");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool matches(const std::string& pattern, const std::string& text) { return PythonRegex(pattern, "x").matches(text); }

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
                                   {R"((x)(b)(c)(d)(e)(f)(g)(h)(i)(j)\1a)", "xbcdefghijxa", true},
                                   {R"(.*(?<=\.)q)", "a.q", true},
                                   {R"(.*(?<!\.)q)", "a.q", false},
                                   {R"((?>a+)a)", "aaa", false},
                                   {R"(a++b)", "aab", true},
                                   {R"((a)?(?(1)b|c))", "ab", true},
                                   {R"((a)?(?(1)b|c))", "ac", false},
                                   {R"((?i:A)b)", "ab", true},
                                   {R"((?i:A)b)", "aB", false},
                                   {R"(\v\x41\u0042\103)",
                                    "\x0b"
                                    "ABC",
                                    true},
                                   {R"([\0-\101]+)", "A", true},
                                   {"[\xC3\xA9-\xC3\xAB]\\w", "\xC3\xAA\xC3\xA9", true},
                                   {"a.c", "a\nc", false},
                                   {"a\\Z", "a\n", false},
                                   {"(?s)a\\Z.", "a\n", false}};
  for (const auto& [pattern, text, expected] : cases) {
    const std::string where = std::string(pattern) + " on " + text;
    CAPTURE(where);
    CHECK(matches(pattern, text) == expected);
  }
}

TEST_CASE("what is invalid in Python is refused although PCRE2 has it") {
  for (const char* only_pcre2 :
       {R"(\Qa\E)", R"(\h)",   R"(\R)",     R"(\K)",  R"(\p{L})",    R"(\z)",  "(?R)",  "(?|a)",
        "(?<n>a)",  "(?'n'a)", "(*ACCEPT)", "(?&n)",  "(a)(?1)",     "a(?i)b", "(?x)a", R"(\N{DIGIT ONE})",
        R"([\A])",  R"([\8])", R"(\400)",   R"(\x1)", "(?(DEFINE)a)"}) {
    CAPTURE(only_pcre2);
    CHECK(refusal(only_pcre2).find("is no regular expression of Python's, or not supported: ") != std::string::npos);
  }
  CHECK(refusal("\\q") == "x: '\\q' is no regular expression of Python's, or not supported: it has the escape \\q");
  CHECK(refusal("a\\") == "x: 'a\\' is no regular expression of Python's, or not supported: it ends with a backslash");
}

TEST_CASE("an invalid expression is refused with the reason and the place") {
  CHECK(refusal("(a") == "x: '(a' is no regular expression: missing closing parenthesis at character 2");
  CHECK(refusal("a**") ==
        "x: 'a**' is no regular expression: quantifier does not follow a repeatable item at character 2");
  for (const char* invalid : {"a)", "[a", "(?P=a)", "*", "(a)\\2", "a)(b", "(?P<a>x)(?P<a>y)", "\xFF", "{,2}"}) {
    CAPTURE(invalid);
    CHECK(refusal(invalid).find("is no regular expression: ") != std::string::npos);
  }
  CHECK(refusal(std::string(5000, 'a')).find("4096 characters") != std::string::npos);
  CHECK(refusal(std::string(101, '(') + std::string(101, ')')).find("nested") != std::string::npos);
}

TEST_CASE("an expression with text around it is a group of its own and gives its last group") {
  const PythonRegex regex("a|b", "x", "(?:.*\\.)?(?:", ")\\.([0-9]+)");
  CHECK(regex.last_group("m.b.12") == "12");
  CHECK(regex.last_group("a.3") == "3");
  CHECK_FALSE(regex.last_group("m.c.1"));
  CHECK(PythonRegex("(a)?b", "x").last_group("b") == "");
}

TEST_CASE("a match that would take exponential time is refused") {
  const PythonRegex regex("(a+)+b", "x");
  CHECK_FALSE(regex.matches("aaaaac"));
  CHECK_THROWS_WITH_AS(regex.matches(std::string(40, 'a') + "bc"),
                       "x: '(a+)+b' takes too long to match 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabc'", UsageError);
}

}  // namespace memtune::model::python_regex_test
