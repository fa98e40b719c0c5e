// The lines of settings in a user's config, and the comments above them.
#include "core/answer/trainer/key_lines.h"

#include <doctest/doctest.h>

namespace memtune::key_lines_test {

using memtune::trainer::line_of;
using memtune::trainer::with_comments;

namespace {

using Path = std::vector<std::string>;

size_t line(const std::string& text, const Path& path) { return line_of(text, path); }

constexpr char kYaml[] = "# a: 0\nouter:\n  # b: 0\n  a: 1\n  'b': 2\na: 3\nflow: {a: 1, b: 2}\n";

}  // namespace

TEST_CASE("a setting is found at its depth in YAML and JSON and TOML and in braces and quotes") {
  CHECK(line(kYaml, {"a"}) == 6);
  CHECK(line(kYaml, {"outer", "a"}) == 4);
  CHECK(line(kYaml, {"outer", "b"}) == 5);
  CHECK(line(kYaml, {"flow", "b"}) == 7);
  CHECK(line("{\n \"x\": {\n  \"a\": 1\n }\n}\n", {"x", "a"}) == 3);
  CHECK(line("{\"x\": {\"a\": 1}}", {"x", "a"}) == 1);
  CHECK(line("[job]\nmode = 1\n[a.b]  # mine\nmode = 2\n", {"a", "b", "mode"}) == 4);
  CHECK(line("\xEF\xBB\xBF"
             "a: 1\n",
             {"a"}) == 1);
}

TEST_CASE("a missing setting is reported at the mapping that would contain it or nowhere") {
  CHECK(line(kYaml, {"outer", "none"}) == 2);
  CHECK(line(kYaml, {"none"}) == 0);
  CHECK(line("ab: 1\n", {"a"}) == 0);
  CHECK(line("[a]\nx = 1\n", {"a", "mode"}) == 1);
}

TEST_CASE("comments are placed above the first setting and replace those of an earlier export") {
  const std::string once = with_comments("---\nz: 1\nb: 2\na: 1\n", {"# memtune 1: x", "# more"}, {{"a"}, {"b"}});
  CHECK(once == "---\nz: 1\n# memtune 1: x\n# more\nb: 2\na: 1\n");
  CHECK(with_comments(once, {"# memtune 2: y"}, {{"a"}, {"b"}}) == "---\nz: 1\n# memtune 2: y\nb: 2\na: 1\n");
  CHECK(with_comments("# mine\na: 1\n", {"# memtune 1"}, {{"a"}}) == "# mine\n# memtune 1\na: 1\n");
  CHECK(with_comments("a: 1\n", {"# memtune 1"}, {{"b"}}) == "a: 1\n# memtune 1\n");
  CHECK(with_comments("\xEF\xBB\xBF"
                      "a: 1\n",
                      {"# memtune 1"}, {{"a"}}) == "\xEF\xBB\xBF# memtune 1\na: 1\n");
}

}  // namespace memtune::key_lines_test
