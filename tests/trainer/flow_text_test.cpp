// Scalars follow YAML and JSON. A setting goes into braces and all other text in them stays.
#include "core/answer/trainer/flow_text.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace memtune::flow_text_test {

using nlohmann::json;
using namespace memtune;
using namespace memtune::trainer;

namespace {

using Keys = std::vector<std::string>;

std::string put(const std::string& text, const Keys& path, const std::optional<json>& value, bool as_json = false) {
  return put_in_flow(text, path, value, as_json);
}

}  // namespace

TEST_CASE("scalars are read as a trainer's parser reads them") {
  for (const char* text : {"true", "True", "TRUE", "yes", "On"}) CHECK(read_value(text) == true);
  for (const char* text : {"false", "no", "Off"}) CHECK(read_value(text) == false);
  for (const char* text : {"", "null", "~", "# a comment"}) CHECK(read_value(text).is_null());
  CHECK(read_value("4") == 4);
  CHECK(read_value("+4") == 4);
  CHECK(read_value("-2.5e-5") == -2.5e-5);
  CHECK(read_value("tRue") == "tRue");
  CHECK(read_value("'it''s'") == "it's");
  CHECK(read_value("\"a\\tb\"") == "a\tb");
  CHECK(read_value("\"4\"") == "4");
  CHECK(read_value("a b:c") == "a b:c");
}

TEST_CASE("numbers are those of YAML 1.1") {
  const std::vector<std::pair<const char*, json>> numbers = {{"010", 8},
                                                             {"0x4", 4},
                                                             {"0b101", 5},
                                                             {"1_6", 16},
                                                             {"-0x_F", -15},
                                                             {"1:30", 90},
                                                             {"-1:00:01", -3601},
                                                             {"1_0.5", 10.5},
                                                             {"1.", 1.0},
                                                             {".5", 0.5},
                                                             {"1e-5", 1e-5},
                                                             {"+1.5e+3", 1500.0},
                                                             {"0", 0},
                                                             {"-0", 0},
                                                             {"0_7", 7},
                                                             {"9223372036854775807", 9223372036854775807},
                                                             {"92233720368547758070", 92233720368547758070.0}};
  for (const auto& number : numbers) CHECK_MESSAGE(read_value(number.first) == number.second, number.first);
  for (const char* text : {"08", "0o17", "1:60", "1:300", "0b2", "0x", "_1", "1e", "e5", ".", "-", "1.5.2",
                           "2026-11-26", "1-2", ".inf", "nan", "._5"})
    CHECK_MESSAGE(read_value(text) == text, text);
}

TEST_CASE("flow collections are read in JSON and YAML") {
  CHECK(read_value("{use_reentrant: false, list: [a, 'b', 3]}") ==
        json{{"use_reentrant", false}, {"list", {"a", "b", 3}}});
  CHECK(read_value("{\n  \"a\": {\"b\": null},  # why\n  c: 1,\n}") == json{{"a", {{"b", nullptr}}}, {"c", 1}});
}

TEST_CASE("text that cannot be interpreted alone is returned unchanged") {
  for (const char* text : {"*alias", "!!str 3", "&anchor 1", "{a: 1", "[1, 2", "\"open", "a: b: c", "{a: *b}"})
    CHECK(read_value(text) == text);
  CHECK(read_value(std::string(1000, '[')).is_string());
}

TEST_CASE("text is quoted if it would be read as another type") {
  for (const char* text : {"4", "true", "a b", "", "-x", "a: b", "null", "2026-11-26", "1_000", "0x1F", "0b1", ".inf",
                           ".nan", "1_0.5", "..."})
    CHECK(read_value(write_value(text, false)) == text);
  CHECK(write_value("org/name-1.5_b", false) == "org/name-1.5_b");
  for (const char* text : {"2026-11-26", "1_000", "0x1F", ".inf"})  // YAML 1.1 reads these as a date and as numbers
    CHECK(write_value(text, false) == '"' + std::string(text) + '"');
  CHECK(write_value("aten::mm", false) == "\"aten::mm\"");
  CHECK(write_value(json{{"a", {1, "b"}}}, false) == "{a: [1, b]}");
  CHECK(write_value(json{{"a", {1, "b"}}}, true) == R"({"a":[1,"b"]})");
}

TEST_CASE("a setting replaces an existing one or is appended in the style of the last") {
  CHECK(put("{a: 1, b: {c: 2}}", {"b", "c"}, 3) == "{a: 1, b: {c: 3}}");
  CHECK(put("{a: 1}", {"b", "c"}, true) == "{a: 1, b: {c: true}}");
  CHECK(put("{}", {"b"}, "x") == "{b: x}");
  CHECK(put("{a: null}", {"a", "b"}, 1) == "{a: {b: 1}}");
  CHECK(put("{\n  \"a\": 1,\n  \"b\": 2.50\n}\n", {"c"}, 3, true) == "{\n  \"a\": 1,\n  \"b\": 2.50,\n  \"c\":3\n}\n");
  CHECK(put("{a:[1], b: 2}", {"a"}, 3) == "{a: 3, b: 2}");  // YAML would read "a:3" as text
  CHECK(put("{a: \"}\", b: 1}", {"a"}, 2) == "{a: 2, b: 1}");
}

TEST_CASE("a setting is removed with its comma") {
  CHECK(put("{a: 1, b: 2, c: 3}", {"a"}, std::nullopt) == "{b: 2, c: 3}");
  CHECK(put("{a: 1, b: 2, c: 3}", {"b"}, std::nullopt) == "{a: 1, c: 3}");
  CHECK(put("{a: 1, b: 2, c: 3}", {"c"}, std::nullopt) == "{a: 1, b: 2}");
  CHECK(put("{ a: 1 }", {"a"}, std::nullopt) == "{}");
  CHECK(put("{a: 1}", {"b", "c"}, std::nullopt) == "{a: 1}");
}

TEST_CASE("a path through a value that is not a mapping is refused") {
  CHECK_THROWS_WITH_AS(put("{a: 1}", {"a", "b"}, 1), "a.b cannot be set in '{a: 1}'", UsageError);
  CHECK_THROWS_AS(put("{a: *x}", {"b"}, 1), UsageError);
  CHECK_THROWS_AS(put("{a: 1, a: 2}", {"a"}, 3), UsageError);
  CHECK_THROWS_AS(put("[1]", {"a"}, 1), UsageError);
}

}  // namespace memtune::flow_text_test
