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
  return memtune::trainer::read_toml(text, path, "x.toml");
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

TEST_CASE("invalid TOML and TOML that cannot be edited by lines are refused with the line") {
  CHECK_THROWS_WITH_AS(put("a = 1\nwords\n", {"a"}, 2), "x.toml:2: 'words' is no TOML memtune reads", UsageError);
  CHECK_THROWS_AS(put("a = [1,\n", {"a"}, 2), UsageError);
  CHECK_THROWS_AS(put("a = \"\"\"\n", {"a"}, 2), UsageError);
  CHECK_THROWS_WITH_AS(put("c = {x = 1}\n", {"c", "x"}, 2),
                       "x.toml: c is written in braces: write it as a table of its own", UsageError);
  CHECK_THROWS_AS(put("[[c]]\nx = 1\n", {"c", "x"}, 2), UsageError);
}

TEST_CASE("an inline table is read and its unsupported parts are refused") {
  CHECK(read("c = {x = 'full', y = [1, 2], z = { w = true } } # d\n", {"c", "x"}) == json("full"));
  CHECK(read("c = {x = 'full', z = { w = true } }\n", {"c", "z", "w"}) == json(true));
  CHECK_THROWS_WITH_AS(read("c = {x = 1, x = 2}\n", {"c", "x"}), "x.toml: c.x is in braces that memtune does not read",
                       UsageError);
}

TEST_CASE("a table of dotted keys gets a new setting as another dotted key") {
  CHECK(put("c.x = 1\n\n[d]\nz = 1\n", {"c", "y"}, 2) == "c.x = 1\nc.y = 2\n\n[d]\nz = 1\n");
  CHECK(put("[c]\nd.x = 1\nz = 1\n", {"c", "d", "y"}, 2) == "[c]\nd.x = 1\nd.y = 2\nz = 1\n");
}

TEST_CASE("duplicate keys are refused except in arrays of tables") {
  CHECK_THROWS_WITH_AS(read("[c]\nx = 1\nx = 2\n", {"c", "x"}), "x.toml has the key c.x twice", UsageError);
  CHECK_THROWS_WITH_AS(read("[c]\nx = 1\n[c]\n", {"c", "x"}), "x.toml has the key c twice", UsageError);
  CHECK(read("[[c]]\nx = 1\n[c.d]\n[[c]]\nx = 2\n[c.d]\n[e]\ny = 3\n", {"e", "y"}) == json(3));
}

}  // namespace memtune::toml_text_test
