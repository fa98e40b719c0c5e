// Settings of a user's YAML are read and written at any depth; every other character stays.
#include "core/answer/trainer/yaml_text.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/trainer/flow_text.h"
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

json read(const std::string& text, const Keys& path) { return read_yaml(text, path, "x.yaml").value_or("nobody says"); }

constexpr char kOwn[] =
    "base: &base 'org/name'  # of the hub\nother: *base\n\nkwargs:  # of checkpointing\n  # by DDP\n"
    "  use_reentrant: false  # needed\n  deep:\n    at: 1\nlist:\n- a\n- 'b'\nflow: {a: 1,\n  b: [x]}  # two\ntext: |\n"
    "  kwargs: 3\n# the end\n";

}  // namespace

TEST_CASE("YAML values are read from blocks and braces and lists") {
  CHECK(read(kOwn, {"kwargs", "use_reentrant"}) == false);
  CHECK(read(kOwn, {"kwargs"}) == json{{"use_reentrant", false}, {"deep", {{"at", 1}}}});
  CHECK(read(kOwn, {"list"}) == json{"a", "b"});
  CHECK(read(kOwn, {"flow", "b"}) == json{"x"});
  CHECK(read(kOwn, {"other"}) == "*base");
  CHECK(read(kOwn, {"kwargs", "none"}) == "nobody says");
  CHECK(read("a:\nb: 1\n", {"a"}).is_null());
}

TEST_CASE("a changed YAML setting keeps its line and comment") {
  const std::string text = put(kOwn, {"kwargs", "use_reentrant"}, true);
  std::string expected = kOwn;
  expected.replace(expected.find("use_reentrant: false"), 20, "use_reentrant: true");
  CHECK(text == expected);
  CHECK(put(text, {"kwargs", "use_reentrant"}, false) == kOwn);
}

TEST_CASE("a comment within braces ends a value and stays after it") {
  const std::string braces = "a: {b: [x] # one\n\n }\n";
  CHECK(read(braces, {"a", "b"}) == json{"x"});
  CHECK(put(braces, {"a", "b"}, 7) == "a: {b: 7 # one\n\n }\n");
  CHECK(read(put(braces, {"a", "b"}, 7), {"a", "b"}) == 7);
  CHECK(put("a: {c: d # one\n}\n", {"a", "b"}, 7) == "a: {c: d, b: 7 # one\n}\n");
  CHECK(read("a: {c: d#e # one\n}\n", {"a", "c"}) == "d#e");
}

TEST_CASE("a document may start with its mark followed by anything") {
  for (const char* start : {"---\n", "---\r\n", "--- # mine\n", "---  \n"}) {
    CAPTURE(start);
    CHECK(put(std::string(start) + "a: 1\n", {"a"}, 2) == std::string(start) + "a: 2\n");
  }
}

TEST_CASE("a key may be quoted or contain blanks or have blanks before its colon and stays as written") {
  for (const char* key : {"\"optim\" ", "'optim'", "optim ", "\"op\\u0074im\""})
    CHECK(put(std::string(key) + ": x  # why\n", {"optim"}, "y") == std::string(key) + ": y  # why\n");
  CHECK(put("my key: 1\nhttp://x: 2\nit's: 3\n", {"my key"}, 4) == "my key: 4\nhttp://x: 2\nit's: 3\n");
  CHECK(put("\"a: b\": {c: 1}\n", {"a: b", "c"}, 2) == "\"a: b\": {c: 2}\n");
  CHECK(read("a:\n  \"b:c\" :\n  - 1\n", {"a"}) == json{{"b:c", {1}}});
  for (const char* none : {"\"open: 1\n", "\"a\" b: 1\n", "a # b: 1\n", "? a: 1\n", "--- a: 1\n", "\t: 1\n"})
    CHECK_THROWS_AS(put(none, {"x"}, 1), UsageError);
}

TEST_CASE("a byte order mark is not part of the first key and stays") {
  CHECK(put("\xEF\xBB\xBF"
            "a: 1\n",
            {"a"}, 2) ==
        "\xEF\xBB\xBF"
        "a: 2\n");
  CHECK(put_in_flow("\xEF\xBB\xBF{\"a\": 1}", Keys{"a"}, json(2), true) == "\xEF\xBB\xBF{\"a\": 2}");
}

TEST_CASE("a new member goes after the last one of its mapping at the same indentation") {
  CHECK(put("a:\n   b: 1\n\nc: 2\n", {"a", "d"}, 3) == "a:\n   b: 1\n   d: 3\n\nc: 2\n");
  CHECK(put("a: {b: 1}  # x\nc: 2\n", {"a", "d"}, 3) == "a: {b: 1, d: 3}  # x\nc: 2\n");
  CHECK(put("a:\n  b:\n    c: 1\n", {"a", "b", "d"}, "x") == "a:\n  b:\n    c: 1\n    d: x\n");
  CHECK(put("a:\nc: 2\n", {"a", "b"}, 1) == "a:\n  b: 1\nc: 2\n");
  CHECK(put("c: 2\n# the end\n", {"a", "b"}, 1) == "c: 2\n# the end\na:\n  b: 1\n");
  CHECK(put("", {"a"}, json{{"b", {"x", "y"}}}) == "a:\n  b: [x, y]\n");
}

TEST_CASE("removing a setting leaves its comments and an emptied mapping stays a mapping") {
  CHECK(put("a: 1\n# why\nb: 2\nc: 3\n", {"b"}, std::nullopt) == "a: 1\n# why\nc: 3\n");
  CHECK(put("a:\n  b: 1\n", {"a", "b"}, std::nullopt) == "a: {}\n");
  CHECK(put("a: {b: 1}\n", {"a", "b"}, std::nullopt) == "a: {}\n");
  CHECK(put("a: 1\n", {"b", "c"}, std::nullopt) == "a: 1\n");
}

TEST_CASE("a multi-line value is replaced whole") {
  CHECK(put(kOwn, {"flow"}, 1).find("flow: 1  # two\ntext: |") == std::string::npos);  // the comment was in the value
  CHECK(put("a:\n- 1\n- 2\nb: 1\n", {"a"}, "x") == "a: x\nb: 1\n");
}

TEST_CASE("an edit that would change the meaning of other text is refused") {
  CHECK_THROWS_AS(put("a: {c: [0],\n d:\n-\n }\n", {"a", "b"}, 7), UsageError);
}

TEST_CASE("a text with other YAML line breaks is refused with the place") {
  for (const char* end : {"\r", "\r\r\n", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"})
    CHECK_THROWS_WITH_AS(put("a: 1\r\n# x" + std::string(end) + "b: 2\n", {"a"}, 3),
                         "x.yaml:2: YAML also ends a line at CR, U+0085, U+2028 and U+2029, one of which is here: "
                         "write a line feed",
                         UsageError);
  CHECK(put("a: 1\r\nb: \"\xE2\x80\xA6\"\r\n", {"a"}, 3).find("\xE2\x80\xA6") != std::string::npos);
}

TEST_CASE("settings are not written into anchored values and not into values that are no mapping") {
  CHECK_THROWS_WITH_AS(put(kOwn, {"base"}, 1),
                       "x.yaml: base has the anchor &base, so that others may have its value: write it out where it is "
                       "used",
                       UsageError);
  CHECK_THROWS_WITH_AS(put(kOwn, {"other", "a"}, 1), "x.yaml: other is '*base', not a mapping with a", UsageError);
  CHECK_THROWS_WITH_AS(put("a: 1\na: 2\n", {"a"}, 1), "x.yaml has the key a twice", UsageError);
  CHECK_THROWS_AS(put("a:\n\tb: 1\n", {"a", "b"}, 2), UsageError);  // YAML does not allow tabs as indentation
  CHECK(put(kOwn, {"other"}, 1).find("other: 1\n") != std::string::npos);
}

}  // namespace memtune::yaml_text_test
