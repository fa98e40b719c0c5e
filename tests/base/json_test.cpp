// An untrusted file must neither crash memtune nor change one number into another.
#include "core/base/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace memtune::base_json_test {

using namespace memtune;
using nlohmann::json;

namespace {

std::string nested(int levels, char open = '[', char close = ']') {
  return std::string(static_cast<size_t>(levels), open) + std::string(static_cast<size_t>(levels), close);
}

}  // namespace

TEST_CASE("nesting is limited before the parser recurses and brackets within strings do not count") {
  CHECK(parse_json(nested(64)).is_array());
  CHECK_THROWS_WITH_AS(parse_json(nested(65)), "it is nested deeper than 64 levels", json::exception);
  CHECK_THROWS_AS(parse_json(nested(2'000'000)), json::exception);
  CHECK_THROWS_AS(parse_json(std::string(2'000'000, '{')), json::exception);
  CHECK(parse_json("\"" + nested(500) + "\\\"" + nested(500) + "\"").get<std::string>().size() == 2001);
}

TEST_CASE("a duplicate key is rejected in files that users write") {
  const std::string twice = R"({"a": {"b": 1}, "c": [{"a": 2}], "a": 3})";
  CHECK(parse_json(twice).at("a") == 3);
  CHECK_THROWS_WITH_AS(parse_json(twice, JsonDuplicateKeyPolicy::refused), "'a' is there twice", json::exception);
  CHECK(parse_json(R"({"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]})", JsonDuplicateKeyPolicy::refused).size() == 2);
}

TEST_CASE("whole accepts only integers within the range") {
  CHECK(whole(json(-5)) == -5);
  CHECK(whole(json(7), 0, 7) == 7);
  CHECK(whole_int(json(2147483647)) == 2147483647);
  for (const char* text :
       {"1e300", "2.5", "1.0", "18446744073709551615", "9223372036854775808", "true", "\"1\"", "null"})
    CHECK_THROWS_AS(whole(parse_json(text)), json::exception);
  CHECK_THROWS_WITH_AS(whole(json(8), 0, 7), "8 is no whole number from 0 to 7", json::exception);
  CHECK_THROWS_AS(whole_int(json(2147483648)), json::exception);
}

TEST_CASE("strings of printed JSON have no line separators and no bidi controls") {
  const std::string text = "a\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAE\xD8\x9C\xEF\xBF\xBE \xC2\x85";
  const std::string printed = print_json(json{{text, {text}}}, 1);
  CHECK(printed ==
        "{\n \"a\\u2028\\u2029\\u202e\\u061c\\ufffe \\u0085\": [\n  \"a\\u2028\\u2029\\u202e\\u061c\\ufffe \\u0085\"\n "
        "]\n}");
  CHECK(parse_json(printed) == json{{text, {text}}});
}

TEST_CASE("integers and numbers without explicit bounds get the default ones") {
  CHECK(whole(json(int64_t{1} << 53)) == int64_t{1} << 53);
  CHECK_THROWS_AS(whole(json((int64_t{1} << 53) + 1)), json::exception);
  CHECK_THROWS_AS(whole(json(-(int64_t{1} << 53) - 1)), json::exception);
  CHECK(any_whole(json(std::numeric_limits<int64_t>::max())) == std::numeric_limits<int64_t>::max());
  CHECK(number(json(-1e60)) == -1e60);
  for (const char* text : {"1e61", "-1e300", "true", "\"1\"", "null"})
    CHECK_THROWS_AS(number(parse_json(text)), json::exception);
  CHECK(number(json(1e-61)) == 0);  // tiny numbers become 0: quotients must not overflow
  CHECK(number(json(7)) == 7);
  CHECK(std::isnan(number_or_nan(json())));
  CHECK(std::isnan(number_or_nan(json(-1e300))));
  CHECK(number_or_nan(json(2.5)) == 2.5);
}

TEST_CASE("an invalid field is named with its range") {
  const json object = {{"peak_bytes", -1}, {"step_ms", 1e300}};
  CHECK_THROWS_WITH_AS(whole_at(object, "peak_bytes", 0, 9), "peak_bytes: -1 is no whole number from 0 to 9",
                       json::exception);
  CHECK_THROWS_WITH_AS(number_at(object, "step_ms", 0, 1e15), "step_ms: 1e+300 is no number from 0.0 to 1e+15",
                       json::exception);
  CHECK_THROWS_AS(whole_at(object, "steps"), json::out_of_range);
}

TEST_CASE("a bounded sum rejects terms beyond its limit") {
  OverflowCheckedSum sum(10);
  CHECK(sum.add(4));
  CHECK_FALSE(sum.add(-1));
  CHECK_FALSE(sum.add(std::numeric_limits<int64_t>::max()));
  CHECK_FALSE(sum.add(7));
  CHECK(sum.add(6));
  CHECK(bounded_sum(kMaxSum, kMaxSum) == kMaxSum);
  CHECK(bounded_product(kMaxSum, kMaxSum) == kMaxSum);
  CHECK(bounded_product(3, 4) == 12);
}

TEST_CASE("printed JSON escapes control characters and parses to the same text") {
  const std::string text = "\x1b]0;pwned\x07 \x7f \xC2\x80\xC2\x9B\xC2\x9F \xC2\xA0 ×";
  const std::string printed = print_json(json(text));
  CHECK(printed == "\"\\u001b]0;pwned\\u0007 \\u007f \\u0080\\u009b\\u009f \xC2\xA0 ×\"");
  CHECK(parse_json(printed) == json(text));
  CHECK(print_json(json("\xC2")) == "\"\xEF\xBF\xBD\"");
}

TEST_CASE("what is not JSON is refused with its line and a placeholder of a template by name") {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_json(text);
    } catch (const nlohmann::json::parse_error& error) {
      return not_json_text(text, error.byte);
    }
    return "";
  };
  const std::string placeholder = " is no value; a template's placeholders have to be replaced";
  CHECK(refusal("{\n  \"a\": 1,\n  \"b\": MB_SIZE,\n}") == " is not JSON: line 3, 'MB_SIZE'" + placeholder);
  CHECK(refusal("{\"a\": fals}") == " is not JSON: line 1, 'fals'" + placeholder);
  CHECK(refusal("[1,\n2,\n]") == " is not JSON: line 3");
  CHECK(refusal("{") == " is not JSON: line 1");
  CHECK(refusal("") == " is not JSON: line 1");
  CHECK(refusal("[\n\xff]") == " is not JSON: line 2");
}

}  // namespace memtune::base_json_test
