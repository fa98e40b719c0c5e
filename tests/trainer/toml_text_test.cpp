// TOML written by a user: one setting changes and every other character stays.
#include "core/answer/trainer/toml_text.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.h"

namespace memtune::toml_text_test {

using memtune::UsageError;
using nlohmann::json;

namespace {

using Path = std::vector<std::string>;

constexpr char kToml[] =
    "# mine\ntop = 1\n\n[job]\nname = \"a # b\"  # why\nlist = [\n  1, # one\n  2,\n]\n\n[a.b]\nmode = 'x'\ntext = "
    "\"\"\"\n"
    "[no]\nmode = 1\n\"\"\"\n";

std::string put(const std::string& text, const Path& path, const std::optional<json>& value) {
  return memtune::trainer::put_in_toml(text, path, value, "x.toml");
}

std::optional<json> read(const std::string& text, const Path& path) {
  json value = memtune::trainer::read_whole_toml(text, "x.toml");
  for (const std::string& key : path) {
    if (!value.contains(key)) return {};
    value = json(value[key]);
  }
  return value;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kToml;
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("settings of TOML tables are read and comments and multi-line text are skipped") {
  CHECK(read(kToml, {"top"}) == json(1));
  CHECK(read(kToml, {"job", "name"}) == json("a # b"));
  CHECK(read(kToml, {"a", "b", "mode"}) == json("x"));
  CHECK_FALSE(read(kToml, {"no"}));
  CHECK_FALSE(read(kToml, {"job", "mode"}));
  CHECK(read("a.b = true\n", {"a", "b"}) == json(true));
}

TEST_CASE("a TOML setting changes in its place and keeps its comment") {
  CHECK(put(kToml, {"job", "name"}, "c") == changed("\"a # b\"", "\"c\""));
  CHECK(put(kToml, {"a", "b", "mode"}, 0.5) == changed("'x'", "0.5"));
  CHECK(put(kToml, {"job", "list"}, json::array({3})) == changed("[\n  1, # one\n  2,\n]", "[3]"));
  CHECK(put("\"\xC3\xA9\xC3\xA9\" = '\xC3\xA9'  # why\n", {"\xC3\xA9\xC3\xA9"}, 1) ==
        "\"\xC3\xA9\xC3\xA9\" = 1  # why\n");
  CHECK(put(kToml, {"top"}, std::nullopt) == changed("top = 1\n", ""));
}

TEST_CASE("a new TOML setting goes after the last of its table or into a new table at the end") {
  CHECK(put(kToml, {"job", "x"}, true) == changed("]\n\n[a.b]", "]\nx = true\n\n[a.b]"));
  CHECK(put(kToml, {"new"}, 2) == changed("top = 1\n", "top = 1\nnew = 2\n"));
  CHECK(put(kToml, {"c", "x"}, 2) == std::string(kToml) + "\n[c]\nx = 2\n");
  CHECK(put("", {"c", "x"}, "y") == "[c]\nx = \"y\"\n");
  CHECK(put("[c]", {"c", "x"}, 1) == "[c]\nx = 1\n");
  CHECK(put(kToml, {"none", "x"}, std::nullopt) == kToml);
}

TEST_CASE("a written TOML setting reads back and writing it twice changes nothing") {
  for (const Path& path : {Path{"top"}, Path{"job", "x"}, Path{"a", "b", "mode"}, Path{"c", "d"}}) {
    const std::string once = put(kToml, path, "word");
    CHECK(read(once, path) == json("word"));
    CHECK(put(once, path, "word") == once);
  }
}

TEST_CASE("text that is no TOML is refused with its line and the reason") {
  CHECK_THROWS_WITH_AS(put("a = 1\nwords\n", {"a"}, 2),
                       "x.toml:2: this is no TOML: Error while parsing key-value pair: expected '=', saw '\\n'",
                       UsageError);
  for (const char* none : {"a = [1,\n", "a = \"\"\"\n", "c = {x = 1, x = 2}\n", "[[ = 1]]\n", "\xC3\xA9 = 1\n",
                           "[c]\nx = 1\nx = 2\n", "[c]\n[c]\n"})
    CHECK_THROWS_AS(read(none, {"a"}), UsageError);
}

TEST_CASE("values of TOML are read as tomllib reads them and dates stay text") {
  const json whole = memtune::trainer::read_whole_toml(
      "a = 0x1F\nb = 1_000.5\nc = '''x\ny'''\nd = 1979-05-27T07:32:00Z\ne = -inf\nf = {x = 'full', z = {w = true}} # "
      "d\n"
      "\"g h\".i = \"\\u00e9\"\n[[t]]\nx = 1\n[t.u]\n[[t]]\nx = 2\n",
      "x.toml");
  CHECK(whole == json{{"a", 31},
                      {"b", 1000.5},
                      {"c", "x\ny"},
                      {"d", "1979-05-27T07:32:00Z"},
                      {"e", "-inf"},
                      {"f", {{"x", "full"}, {"z", {{"w", true}}}}},
                      {"g h", {{"i", "\xC3\xA9"}}},
                      {"t", {{{"x", 1}, {"u", json::object()}}, {{"x", 2}}}}});
}

TEST_CASE("deep nesting is refused also in dotted keys") {
  const auto dotted = [](int dots) {
    std::string key = "a";
    for (int i = 0; i < dots; ++i) key += ".'b.c'";
    return key;
  };
  CHECK(read(dotted(60) + " = '" + std::string(200, '.') + "'  # " + dotted(90) + "\n", {"a"}));
  for (const std::string& deep :
       {dotted(64) + " = 1\n", "[" + dotted(64) + "]\n", "x = {" + dotted(64) + " = 1}\n",
        "x = {a = \"\"\"'\"\"\"\"\", " + dotted(1'000'000) + " = 1}\n", "a = " + std::string(100, '[') + "\n"})
    CHECK_THROWS_AS(read(deep, {"a"}), UsageError);
  CHECK_THROWS_WITH_AS(read("a = 1\n" + dotted(64) + " = 1\n", {"a"}), "x.toml:2: a key has more than 64 parts",
                       UsageError);
}

TEST_CASE("an inline table is edited in place") {
  CHECK(put("c = {x = 1}\n", {"c", "x"}, 2) == "c = {x = 2}\n");
  CHECK(put("c = {x = 1} # d\n", {"c", "y"}, 2) == "c = {x = 1, y = 2} # d\n");
  CHECK(put("c = {}\n", {"c", "y"}, 2) == "c = {y = 2}\n");
  CHECK(put("c = {x = 1, y = 2}\n", {"c", "x"}, std::nullopt) == "c = {y = 2}\n");
  CHECK(put("c = {x = 1, y = 2 }\n", {"c", "y"}, std::nullopt) == "c = {x = 1 }\n");
  CHECK(put("c = { x = 1 }\n", {"c", "x"}, std::nullopt) == "c = { }\n");
}

TEST_CASE("a table of dotted keys gets a new setting as another dotted key") {
  CHECK(put("c.x = 1\n\n[d]\nz = 1\n", {"c", "y"}, 2) == "c.x = 1\nc.y = 2\n\n[d]\nz = 1\n");
  CHECK(put("[c]\nd.x = 1\nz = 1\n", {"c", "d", "y"}, 2) == "[c]\nd.x = 1\nd.y = 2\nz = 1\n");
}

TEST_CASE("an edit that TOML has no place for is refused") {
  CHECK_THROWS_WITH_AS(put("[[c]]\nx = 1\n", {"c", "x"}, 2),
                       "x.toml: c.x is not in a table: write it as a table of its own", UsageError);
  CHECK_THROWS_AS(put("c = 1\n", {"c", "x"}, 2), UsageError);
  CHECK_THROWS_AS(put("[c]\nx = 1\n", {"c"}, 2), UsageError);
  CHECK_THROWS_AS(put("c.x = 1\n", {"c", "x"}, std::nullopt), UsageError);  // c would be gone too
  CHECK_THROWS_AS(put("", {"a"}, json{{"b", 1}}), UsageError);
  CHECK_THROWS_AS(put("", {"a"}, json()), UsageError);
}

TEST_CASE("a setting's line is found in tables and in braces and a missing one at its table") {
  const auto line = [](const Path& path) { return memtune::trainer::lines_of_toml(kToml, "x.toml").line_of(path); };
  CHECK(line({"top"}) == 2);
  CHECK(line({"job", "list"}) == 6);
  CHECK(line({"a", "b", "mode"}) == 12);
  CHECK(line({"a", "b", "none"}) == 11);
  CHECK(line({"none"}) == 0);
}

}  // namespace memtune::toml_text_test
