// A pickle is a program. It is read as data, and no part of it runs.
#include "core/model/pt2/pickle.h"

#include <doctest/doctest.h>

#include "tests/pt2/made_up_zip.h"
namespace memtune::model::pickle_test {
namespace {

using Kind = PickleValue::Kind;
using namespace std::string_literals;

TEST_CASE("tuples and dicts and lists and numbers are read as a tree") {
  // ({"a": 1, "b": -2}, [300, True], None), as Python writes it in protocol 2
  const auto pickle = parse_pickle(
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01K\x01X\x01\x00\x00\x00"
      "bJ\xFE\xFF\xFF\xFFu]q\x02(M\x2C\x01\x88"
      "eN\x87q\x03."s);
  REQUIRE(pickle);
  const PickleValue& root = pickle->at(pickle->root);
  REQUIRE(root.parts.size() == 3);
  const PickleValue &dict = pickle->at(root.parts[0]), &list = pickle->at(root.parts[1]);
  CHECK((dict.kind == Kind::dict));
  REQUIRE(dict.parts.size() == 4);
  CHECK(pickle->at(dict.parts[0]).text == "a");
  CHECK(pickle->at(dict.parts[3]).integer == -2);
  REQUIRE(list.parts.size() == 2);
  CHECK(pickle->at(list.parts[0]).integer == 300);
  CHECK(pickle->at(list.parts[1]).integer == 1);
  CHECK((pickle->at(root.parts[2]).kind == Kind::other));
}

TEST_CASE("calls and persistent values are kept as written and memoized values are found again") {
  const auto pickle = parse_pickle("\x80\x02"s + "cos\nsystem\nq\x01X" + test::little(1, 4) + "xQ\x85Rh\x01\x86.");
  REQUIRE(pickle);
  const PickleValue& root = pickle->at(pickle->root);
  REQUIRE(root.parts.size() == 2);
  const PickleValue& call = pickle->at(root.parts[0]);
  CHECK((call.kind == Kind::call));
  CHECK(pickle->at(call.parts[0]).text == "os system");
  CHECK((pickle->at(pickle->at(call.parts[1]).parts[0]).kind == Kind::persistent));
  CHECK(pickle->at(root.parts[1]).text == "os system");
}

TEST_CASE("a pickle that is truncated or invalid or has another opcode is not understood") {
  const std::string a = "X" + test::little(1, 4) + "a", whole = "\x80\x02}("s + a + "q\x01K\x01uM\x2C\x01\x86.";
  REQUIRE(parse_pickle(whole));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) CHECK_FALSE(parse_pickle(whole.substr(0, bytes)));
  for (const std::string& wrong : {"."s, "R."s, "t."s, "h\x07."s, "a."s, "(K\x01R."s, "q\x01."s, "\x8A\xFF."s, "i."s})
    CHECK_FALSE(parse_pickle(wrong));
}

TEST_CASE("a value that contains itself is read") { CHECK(parse_pickle("]q\x01h\x01"s + "a."s)); }

}  // namespace
}  // namespace memtune::model::pickle_test
