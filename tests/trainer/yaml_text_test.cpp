// Settings of a user's YAML are read as PyYAML reads them and written at any depth; every other character stays.
#include "core/answer/trainer/yaml_text.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace memtune::yaml_text_test {

using nlohmann::json;
using namespace memtune;
using namespace memtune::trainer;

namespace {

using Keys = std::vector<std::string>;

std::string put(const std::string& text, const Keys& path, const std::optional<json>& value) {
  return put_in_yaml(text, path, value, "x.yaml");
}

std::string put_json(const std::string& text, const Keys& path, const std::optional<json>& value) {
  return put_in_json(text, path, value, "x.json");
}

json read(const std::string& text) { return read_whole_yaml(text, "x.yaml"); }

size_t line(const std::string& text, const Keys& path) { return lines_of_yaml(text, "x.yaml").line_of(path); }

constexpr char kOwn[] =
    "base: &base 'org/name'  # of the hub\nother: *base\n\nkwargs:  # of checkpointing\n  # by DDP\n"
    "  use_reentrant: false  # needed\n  deep:\n    at: 1\nlist:\n- a\n- 'b'\nflow: {a: 1,\n  b: [x]}  # two\ntext: |\n"
    "  kwargs: 3\n# the end\n";

}  // namespace

TEST_CASE("YAML values are read from blocks and braces and lists and aliases") {
  CHECK(read(kOwn) == json{{"base", "org/name"},
                           {"other", "org/name"},
                           {"kwargs", {{"use_reentrant", false}, {"deep", {{"at", 1}}}}},
                           {"list", {"a", "b"}},
                           {"flow", {{"a", 1}, {"b", {"x"}}}},
                           {"text", "kwargs: 3\n"}});
  CHECK(read("").empty());
  CHECK(read("---\n# nothing\n").empty());
  CHECK(read("a:\nb: 1\n")["a"].is_null());
  CHECK(read("%YAML 1.1\n---\n{a: [1,\n[\n2], {b: c}\n]}\n...\n") == json{{"a", {1, {2}, {{"b", "c"}}}}});
  CHECK(read("a:\n- - 1\n  - 2\n- b: x\n  c: |\n    t\n") == json{{"a", {{1, 2}, {{"b", "x"}, {"c", "t\n"}}}}});
  CHECK(read("a: |\n  no line feed at the end") == json{{"a", "no line feed at the end"}});
}

TEST_CASE("folded text keeps the line feeds around deeper lines") {
  CHECK(read("a: >\n  b\n\n   c\n  d\n  e\n\n  f\n") == json{{"a", "b\n\n c\nd e\nf\n"}});
  CHECK(read("a: >1-\r\n  b\r\n c\r\n") == json{{"a", " b\nc"}});
  CHECK(read("a: >+\n\n b\n\nc: >\n\n") == json{{"a", "\nb\n\n"}, {"c", ""}});
}

TEST_CASE("merged mappings yield to own keys and must not contradict each other") {
  CHECK(read("a: &a {x: 1, y: 1}\nb: &b {x: 1, z: 2}\nc:\n  y: 3\n  <<: [*b, *a]\n")["c"] ==
        json{{"x", 1}, {"y", 3}, {"z", 2}});
  CHECK_THROWS_WITH_AS(read("a: &a {x: 1}\nb: &b {x: 2}\nc:\n  <<: [*b, *a]\n"),
                       "x.yaml:4: '<<' merges different values of x: write it out", UsageError);
  CHECK(read("a: {'<<': 1}\n") == json{{"a", {{"<<", 1}}}});
  CHECK_THROWS_WITH_AS(read("a:\n  <<: 1\n"), "x.yaml:2: '<<' merges something other than mappings", UsageError);
}

TEST_CASE("tags of scalars are followed and of a repeated key the last counts") {
  CHECK(read("a: !!str 1\nb: !!float 1\nc: !!set {x, y}\nd: ! 010\n") ==
        json{{"a", "1"}, {"b", 1.0}, {"c", {{"x", nullptr}, {"y", nullptr}}}, {"d", 8}});
  CHECK(read("a: 1\na: 2\n") == json{{"a", 2}});
  CHECK(read("1: a\non: b\n~: c\n") == json{{"1", "a"}, {"true", "b"}, {"null", "c"}});
  CHECK_THROWS_AS(read("a: !!python/object:os.system x\n"), UsageError);
  CHECK_THROWS_AS(read("a: !!int x\n"), UsageError);
  CHECK_THROWS_AS(read("[a]: 1\n"), UsageError);
  CHECK_THROWS_WITH_AS(read("%YAML 1.1\n%TAG ! tag:x,2000:\n---\na: !b 1\n"),
                       "x.yaml:2: tag directives are not supported", UsageError);
}

TEST_CASE("text that is no YAML is refused with its line and the reason") {
  CHECK_THROWS_WITH_AS(read("a: 1\nb: [1\n"), "x.yaml:3: this is no YAML: flow sequence without a closing bracket",
                       UsageError);
  CHECK_THROWS_WITH_AS(read("a:\n\tb: 1\n"), "x.yaml:2: this is no YAML: tab character may not be used as indentation",
                       UsageError);
  CHECK_THROWS_WITH_AS(read("a: 1\nb: *a\n"), "x.yaml:2: *a is no value above", UsageError);
  CHECK_THROWS_WITH_AS(read("a: &a [*a]\n"), "x.yaml:1: *a is no value that is complete", UsageError);
  CHECK_THROWS_WITH_AS(read("a: 1\n---\nb: 1\n"), "x.yaml:2: a second document begins, and a config has one",
                       UsageError);
  CHECK_THROWS_WITH_AS(read("- a\n"), "x.yaml:1: a config has keys with values, and this has none", UsageError);
  for (const char* none : {"\"open: 1\n", "\"a\" b: 1\n", "a: @x\n", "a: b: c\n", "a: \xFF\n"})
    CHECK_THROWS_AS(read(none), UsageError);
}

TEST_CASE("deep nesting and aliases that expand without end are refused") {
  const auto deep = [](size_t levels) { return "a: " + std::string(levels, '[') + std::string(levels, ']') + "\n"; };
  CHECK(read(deep(63)).size() == 1);
  CHECK_THROWS_WITH_AS(read(deep(64)), "x.yaml:1: it is nested deeper than 64 levels", UsageError);
  CHECK_THROWS_AS(read(deep(1'000'000)), UsageError);
  const auto spaced = [](size_t lines) { return "a: |\n  x\n" + std::string(lines, '\n') + "  y\n"; };
  CHECK(read(spaced(256)).size() == 1);
  CHECK_THROWS_WITH_AS(read(spaced(10'000'000)), "x.yaml:259: more than 256 blank lines follow each other", UsageError);
  std::string bomb = "a0: &a0 [x, x]\n", chain = "a0: &a0 x\n";
  for (int i = 1; i < 100; ++i) {
    const std::string name = "a" + std::to_string(i), before = "*a" + std::to_string(i - 1);
    bomb += name;
    bomb += ": &" + name + " [" + before + ", " + before + "]\n";
    chain += name;
    chain += ": &" + name + " [" + before + "]\n";
  }
  CHECK_THROWS_AS(read(chain), UsageError);
  CHECK_THROWS_WITH_AS(read(bomb.substr(0, bomb.find("a30"))), "x.yaml:1: aliases expand to more than 64 MiB",
                       UsageError);
  std::string values = "a: [1";
  for (int i = 0; i < 1'000'000; ++i) values += ",1";
  CHECK_THROWS_WITH_AS(read(values + "]\n"),
                       "x.yaml:1: it has more than 1000000 values: that is no config of a trainer", UsageError);
}

TEST_CASE("an argument's value is a collection or a quoted text in YAML or a scalar") {
  CHECK(read_value("{use_reentrant: false, list: [a, 'b', 3]}") ==
        json{{"use_reentrant", false}, {"list", {"a", "b", 3}}});
  CHECK(read_value("\"a\\tb\"") == "a\tb");
  CHECK(read_value("'4'") == "4");
  CHECK(read_value(" 4 ") == 4);
  for (const char* text : {"*alias", "!!str 3", "{a: 1", "[1, 2", "\"open", "a: b: c", "{a: *b}", "a: b", "# x"})
    CHECK(read_value(text) == text);
  CHECK(read_value(std::string(1000, '[')).is_string());
}

TEST_CASE("a changed YAML setting keeps its line and comment") {
  const std::string text = put(kOwn, {"kwargs", "use_reentrant"}, true);
  std::string expected = kOwn;
  expected.replace(expected.find("use_reentrant: false"), 20, "use_reentrant: true");
  CHECK(text == expected);
  CHECK(put(text, {"kwargs", "use_reentrant"}, false) == kOwn);
  CHECK(put("a: 1  # x\n", {"a"}, json{{"b", 2}}) == "a:  # x\n  b: 2\n");
  CHECK(put("a:  # x\n  b: 2\nc: 3\n", {"a"}, 1) == "a: 1  # x\nc: 3\n");
}

TEST_CASE("a setting in braces is replaced or appended in the style of the last") {
  const std::string braces = "a: {b: [x] # one\n\n }\n";
  CHECK(put(braces, {"a", "b"}, 7) == "a: {b: 7 # one\n\n }\n");
  CHECK(put("a: {c: d # one\n}\n", {"a", "b"}, 7) == "a: {c: d, b: 7 # one\n}\n");
  CHECK(put("x: {a: 1, b: {c: 2}}\n", {"x", "b", "c"}, 3) == "x: {a: 1, b: {c: 3}}\n");
  CHECK(put("x: {a: 1}\n", {"x", "b", "c"}, true) == "x: {a: 1, b: {c: true}}\n");
  CHECK(put("x: {}\n", {"x", "b"}, "x") == "x: {b: x}\n");
  CHECK(put("x: {a: null}\n", {"x", "a", "b"}, 1) == "x: {a: {b: 1}}\n");
  CHECK(put("x: {\"a\":[1], b: 2}\n", {"x", "a"}, 3) == "x: {\"a\": 3, b: 2}\n");
  CHECK(put("x: {a, b: , \"c\"}\n", {"x", "a"}, 3) == "x: {a: 3, b: , \"c\"}\n");
  CHECK(put("x: {a: 1,\n    b: 2,\n   }\n", {"x", "c"}, 3) == "x: {a: 1,\n    b: 2,\n    c: 3,\n   }\n");
}

TEST_CASE("a setting in braces is removed with its comma") {
  CHECK(put("x: {a: 1, b: 2, c: 3}\n", {"x", "a"}, std::nullopt) == "x: {b: 2, c: 3}\n");
  CHECK(put("x: {a: 1, b: 2, c: 3}\n", {"x", "b"}, std::nullopt) == "x: {a: 1, c: 3}\n");
  CHECK(put("x: {a: 1, b: 2, c: 3}\n", {"x", "c"}, std::nullopt) == "x: {a: 1, b: 2}\n");
  CHECK(put("x: { a: 1 }\n", {"x", "a"}, std::nullopt) == "x: {}\n");
}

TEST_CASE("a document may start with its mark followed by anything") {
  for (const char* start : {"---\n", "---\r\n", "--- # mine\n", "---  \n", "%YAML 1.1\n---\n"}) {
    CAPTURE(start);
    CHECK(put(std::string(start) + "a: 1\n", {"a"}, 2) == std::string(start) + "a: 2\n");
  }
  CHECK(put("{a: 1}\n", {"b"}, 2) == "{a: 1, b: 2}\n");
  CHECK(put("a: 1\n...\n", {"b"}, 2) == "a: 1\nb: 2\n...\n");
}

TEST_CASE("a key may be quoted or contain blanks or have blanks before its colon and stays as written") {
  for (const char* key : {"\"optim\" ", "'optim'", "optim ", "\"op\\u0074im\""})
    CHECK(put(std::string(key) + ": x  # why\n", {"optim"}, "y") == std::string(key) + ": y  # why\n");
  CHECK(put("my key: 1\nhttp://x: 2\nit's: 3\n", {"my key"}, 4) == "my key: 4\nhttp://x: 2\nit's: 3\n");
  CHECK(put("\"a: b\": {c: 1}\n", {"a: b", "c"}, 2) == "\"a: b\": {c: 2}\n");
}

TEST_CASE("a byte order mark is not part of the first key and stays") {
  const std::string mark = "\xEF\xBB\xBF";
  CHECK(put(mark + "a: 1\n", {"a"}, 2) == mark + "a: 2\n");
  CHECK(put(mark + "a: 1\n", {"b"}, 2) == mark + "a: 1\nb: 2\n");
  CHECK(put(mark + "a: 1\nb: 1\n", {"a"}, std::nullopt) == mark + "b: 1\n");
}

TEST_CASE("a new member goes after the last one of its mapping at the same indentation") {
  CHECK(put("a:\n   b: 1\n\nc: 2\n", {"a", "d"}, 3) == "a:\n   b: 1\n   d: 3\n\nc: 2\n");
  CHECK(put("a: {b: 1}  # x\nc: 2\n", {"a", "d"}, 3) == "a: {b: 1, d: 3}  # x\nc: 2\n");
  CHECK(put("a:\n  b:\n    c: 1\n", {"a", "b", "d"}, "x") == "a:\n  b:\n    c: 1\n    d: x\n");
  CHECK(put("a:\nc: 2\n", {"a", "b"}, 1) == "a:\n  b: 1\nc: 2\n");
  CHECK(put("c: 2\n# the end\n", {"a", "b"}, 1) == "c: 2\na:\n  b: 1\n# the end\n");
  CHECK(put("c: |\n  x\n", {"a"}, 1) == "c: |\n  x\na: 1\n");
  CHECK(put("c:\n  -\n", {"a"}, 1) == "c:\n  -\na: 1\n");
  CHECK(put("", {"a"}, json{{"b", {"x", "y"}}}) == "a:\n  b: [x, y]\n");
  CHECK(put("a: 1", {"b"}, 2) == "a: 1\nb: 2\n");
}

TEST_CASE("removing a setting leaves its comments and an emptied mapping stays a mapping") {
  CHECK(put("a: 1\n# why\nb: 2\nc: 3\n", {"b"}, std::nullopt) == "a: 1\n# why\nc: 3\n");
  CHECK(put("a:\n  b: 1\n", {"a", "b"}, std::nullopt) == "a: {}\n");
  CHECK(put("# x\na: 1\n", {"a"}, std::nullopt) == "# x\n{}\n");
  CHECK(put("# x\n{}\n", {"a"}, 1) == "# x\na: 1\n");
  CHECK(put("a: 1\n", {"b", "c"}, std::nullopt) == "a: 1\n");
}

TEST_CASE("a multi-line value is replaced whole") {
  CHECK(put(kOwn, {"flow"}, 1).find("flow: 1  # two\ntext: |") != std::string::npos);
  CHECK(put("a:\n- 1\n- 2\nb: 1\n", {"a"}, "x") == "a: x\nb: 1\n");
  CHECK(put("a: |  # t\n  x\n\n  y\n\nb: 1\n", {"a"}, "x") == "a: x\n\nb: 1\n");
}

TEST_CASE("a value that others share is not edited in place") {
  const std::string merged = "d: &d {x: 1}\na:\n  <<: *d\nb: *d\n";
  CHECK(put(merged, {"a", "x"}, 2) == "d: &d {x: 1}\na:\n  <<: *d\n  x: 2\nb: *d\n");
  CHECK(put(merged, {"b"}, 2) == "d: &d {x: 1}\na:\n  <<: *d\nb: 2\n");
  CHECK(put(merged, {"a"}, 2) == "d: &d {x: 1}\na: 2\nb: *d\n");
  CHECK_THROWS_WITH_AS(put(merged, {"a", "x"}, std::nullopt),
                       "x.yaml: a.x cannot be set where it stands: write it there by hand", UsageError);
  CHECK_THROWS_WITH_AS(put(merged, {"b", "x"}, 2),
                       "x.yaml: b.x cannot be set in '*d' of line 4, the value of another key: write it out here",
                       UsageError);
  const char* const shared =
      "x.yaml: d.x is in a value with an anchor, which others may have: write it out where it is used";
  CHECK_THROWS_WITH_AS(put(merged, {"d", "x"}, 2), shared, UsageError);
  CHECK_THROWS_AS(put(merged, {"d"}, 2), UsageError);
  CHECK(put("d: &d {x: 1}\n", {"d", "x"}, 2) == "d: &d {x: 2}\n");
  CHECK(put(kOwn, {"other"}, 1).find("other: 1\n") != std::string::npos);
}

TEST_CASE("an edit that would change the meaning of other text is refused") {
  CHECK_THROWS_AS(put("a: |+\n  x", {"b"}, 7), UsageError);
  CHECK_THROWS_AS(put("? a\n: 1\n", {"a"}, 7), UsageError);
  CHECK_THROWS_WITH_AS(put("a: 1\n", {"a", "b"}, 7),
                       "x.yaml: a.b cannot be set in '1' of line 1, which is not a mapping", UsageError);
  CHECK_THROWS_AS(put("a: [1]\n", {"a", "b"}, 7), UsageError);
  CHECK_THROWS_AS(put("a: 1\na: 2\n", {"a"}, std::nullopt), UsageError);
  CHECK(put("a: 1\na: 2\n", {"a"}, 3) == "a: 1\na: 3\n");
}

TEST_CASE("a text with other YAML line breaks is refused with the place") {
  for (const char* end : {"\r", "\r\r\n", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"})
    CHECK_THROWS_WITH_AS(put("a: 1\r\n# x" + std::string(end) + "b: 2\n", {"a"}, 3),
                         "x.yaml:2: YAML also ends a line at CR, U+0085, U+2028 and U+2029, one of which is here: "
                         "write a line feed",
                         UsageError);
  CHECK(put("a: 1\r\nb: \"\xE2\x80\xA6\"\r\n", {"a"}, 3) == "a: 3\r\nb: \"\xE2\x80\xA6\"\r\n");
}

TEST_CASE("JSON is edited in its own syntax") {
  CHECK(put_json("{\n  \"a\": 1,\n  \"b\": 2.50\n}\n", {"c"}, 3) == "{\n  \"a\": 1,\n  \"b\": 2.50,\n  \"c\":3\n}\n");
  CHECK(put_json("{\"a\": \"}\", \"b\":1}", {"b"}, "x") == "{\"a\": \"}\", \"b\": \"x\"}");
  CHECK(put_json("{\n\t\"a\":\t{}\n}", {"a", "b"}, false) == "{\n\t\"a\":\t{\"b\":false}\n}");
  CHECK(put_json("{\"\\u00e9\\/\": \"\\ud83d\\ude00\"}", {"\xC3\xA9/"}, 1) == "{\"\\u00e9\\/\": 1}");
  CHECK(put_json("{\"a\": 1}", {"a"}, std::nullopt) == "{}");
}

TEST_CASE("a setting's line is found in any form of YAML and a missing one at its mapping") {
  constexpr char kYaml[] = "# a: 0\nouter:\n  # b: 0\n  a: 1\n  'b': 2\na: 3\nflow: {a: 1,\n b: 2}\nt: |\n  a: 1\n";
  CHECK(line(kYaml, {"a"}) == 6);
  CHECK(line(kYaml, {"outer", "a"}) == 4);
  CHECK(line(kYaml, {"outer", "b"}) == 5);
  CHECK(line(kYaml, {"flow", "b"}) == 8);
  CHECK(line(kYaml, {"outer", "none"}) == 2);
  CHECK(line(kYaml, {"none"}) == 0);
  CHECK(line(kYaml, {"t", "a"}) == 9);
  CHECK(line("{\n \"x\": {\n  \"a\": 1\n }\n}\n", {"x", "a"}) == 3);
}

}  // namespace memtune::yaml_text_test
