// All options and their error messages use these functions. These tests fix their wording and their edge cases.
#include "core/base/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace memtune::text_test {

using namespace memtune;

namespace {

using Parts = std::vector<std::string>;

}  // namespace

TEST_CASE("split keeps empty parts") {
  CHECK(split("", ',') == Parts{""});
  CHECK(split("a", ',') == Parts{"a"});
  CHECK(split("a,,b,", ',') == Parts{"a", "", "b", ""});
  CHECK(split(" a , b", ',') == Parts{" a ", " b"});
}

TEST_CASE("trim removes white space at both ends only") {
  CHECK(trim("") == "");
  CHECK(trim(" \t\r\n") == "");
  CHECK(trim("  a b\n") == "a b");
}

TEST_CASE("join puts the separator between parts") {
  CHECK(join(Parts{}, ", ") == "");
  CHECK(join(Parts{"a"}, ", ") == "a");
  CHECK(join(Parts{"a", "", "b"}, ", ") == "a, , b");
}

TEST_CASE("numbers of a path become a star and parts that only contain digits stay") {
  CHECK(without_numbers("layers.3.w1") == "layers.*.w1");
  CHECK(without_numbers("12") == "*");
  CHECK(without_numbers("a..7b") == "a..7b");
  CHECK(without_numbers("") == "");
}

TEST_CASE("the nearest name is the one with the fewest edits") {
  const Parts names = {"none", "checkpoint:full", "offload:sync", "offload:stream"};
  CHECK(nearest("nnoe", names) == "none");
  CHECK(nearest("offload:streem", names) == "offload:stream");
  CHECK(nearest("checkpoint", names) == "");  // needs five edits
  CHECK(nearest("checkpoint:f", names) == "checkpoint:full");
  CHECK(nearest("", names) == "");
  CHECK(nearest("none", Parts{}) == "");
}

TEST_CASE("a short word matches by one edit only or as initials of a name") {
  const Parts losses = {"next_token", "cross_entropy", "mse", "returned"};
  CHECK(nearest("ce", losses) == "cross_entropy");
  CHECK(nearest("mes", losses) == "mse");
  CHECK(nearest("me", losses) == "mse");
  CHECK(nearest("sx", losses) == "");
  CHECK(nearest("l1", losses) == "");
}

TEST_CASE("names that share no letter do not match however short") {
  CHECK(nearest("xy", Parts{"ab", "cd"}) == "");
  CHECK(nearest("ax", Parts{"ab", "cd"}) == "ab");
}

TEST_CASE("an unknown name is answered with the nearest and all known ones") {
  CHECK(unknown_name("word", "txet", Parts{"a", "b", "text"}) ==
        "unknown word 'txet'; did you mean 'text'? Known: a, b, text");
  CHECK(unknown_name("loss", "potatoes", Parts{"mse", "returned"}) == "unknown loss 'potatoes'. Known: mse, returned");
  CHECK(unknown_name("block", "a", Parts{}) == "unknown block 'a'. Known: none");
}

TEST_CASE("a glob's star stays within one part of the path") {
  CHECK(glob_match("layers.*", "layers.0"));
  CHECK(glob_match("layers.*", "layers.12"));
  CHECK_FALSE(glob_match("layers.*", "layers.0.attn"));
  CHECK_FALSE(glob_match("layers.*", "layers"));
  CHECK(glob_match("*.*.attn", "layers.0.attn"));
  CHECK(glob_match("*.l*r?.*", "encoder.layers.3"));
  CHECK_FALSE(glob_match("*", "a.b"));
  CHECK(glob_match("*a*b", "xaaxb"));
  CHECK(glob_match("a*", "a"));
}

TEST_CASE("a glob's question mark is one character and never the dot") {
  CHECK(glob_match("h.?", "h.7"));
  CHECK_FALSE(glob_match("h.?", "h.12"));
  CHECK_FALSE(glob_match("a?b", "a.b"));
}

TEST_CASE("an empty glob matches only the empty path") {
  CHECK(glob_match("", ""));
  CHECK(glob_match("*", ""));
  CHECK_FALSE(glob_match("", "a"));
  CHECK_FALSE(glob_match("a", ""));
}

TEST_CASE("a glob of many stars is matched fast") {
  const std::string path(5000, 'a');
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  CHECK(glob_match(pattern, path));
  CHECK_FALSE(glob_match(pattern + "b", path));
}

TEST_CASE("an invalid integer is rejected with its option's name") {
  CHECK(parse_integer("42", "--steps") == 42);
  CHECK(parse_integer("-7", "--steps") == -7);
  CHECK(parse_integer("9223372036854775807", "--seed") == INT64_MAX);
  CHECK_THROWS_WITH_AS(parse_integer("", "--steps"), "--steps: '' is not a whole number", UsageError);
  CHECK_THROWS_WITH_AS(parse_integer("3x", "--steps"), "--steps: '3x' is not a whole number", UsageError);
  CHECK_THROWS_WITH_AS(parse_integer(" 3", "--steps"), "--steps: ' 3' is not a whole number", UsageError);
  CHECK_THROWS_WITH_AS(parse_integer("2.5", "--steps"), "--steps: '2.5' is not a whole number", UsageError);
  CHECK_THROWS_WITH_AS(parse_integer("9223372036854775808", "--seed"), "--seed: '9223372036854775808' is out of range",
                       UsageError);
}

TEST_CASE("an invalid or infinite number is rejected with its name") {
  CHECK(parse_number("0.25", "rate") == 0.25);
  CHECK(parse_number("-1e-3", "rate") == -1e-3);
  CHECK_THROWS_WITH_AS(parse_number("", "rate"), "rate: '' is not a number", UsageError);
  CHECK_THROWS_WITH_AS(parse_number("1.5.", "rate"), "rate: '1.5.' is not a number", UsageError);
  CHECK_THROWS_WITH_AS(parse_number("1e999", "rate"), "rate: '1e999' is out of range", UsageError);
  CHECK_THROWS_WITH_AS(parse_number("nan", "rate"), "rate: 'nan' is not a finite number", UsageError);
  CHECK_THROWS_WITH_AS(parse_number("-inf", "rate"), "rate: '-inf' is not a finite number", UsageError);
}

}  // namespace memtune::text_test
