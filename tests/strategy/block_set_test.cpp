// Users type ranges. An unclear range is refused, and no block is skipped or added silently.
#include "core/plan/strategy/block_set.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace memtune::block_ranges_test {

using memtune::UsageError;
using memtune::plan::BlockSet;

namespace {

// Marks the first eight blocks: "x..x...." are 0 and 3.
std::string marked(const std::string& text) {
  const BlockSet ranges(text);
  std::string marks;
  for (int block = 0; block < 8; ++block) marks += ranges.contains(block) ? 'x' : '.';
  return marks;
}

}  // namespace

TEST_CASE("block ranges may have numbers and open ends in any order and blanks") {
  CHECK(marked("all") == "xxxxxxxx");
  CHECK(marked("0") == "x.......");
  CHECK(marked("1-3") == ".xxx....");
  CHECK(marked("0:2-3:6-") == "x.xx..xx");
  CHECK(marked(" 5 : 1 - 2 ") == ".xx..x..");
  CHECK(marked("2-2") == "..x.....");
}

TEST_CASE("a text that is no list of blocks is refused") {
  for (const std::string text :
       {"", "-4", "4-2", "1,2", "0:", "a", "1-b", "1--2", "0x1", "1.5", "-", "all:1", "9999999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(BlockSet{text}, UsageError);
  }
}

TEST_CASE("lists that share a block overlap") {
  const auto overlap = [](const char* a, const char* b) { return BlockSet(a).overlaps(BlockSet(b)); };
  CHECK(overlap("all", "3"));
  CHECK(overlap("0-3", "3-5"));
  CHECK(overlap("2-", "9:11"));
  CHECK_FALSE(overlap("0-3", "4-"));
  CHECK_FALSE(overlap("0:2:4", "1:3:5-"));
}

TEST_CASE("a block that the model does not have is named") {
  CHECK_NOTHROW(BlockSet("0-3:2-").check(4));
  CHECK_NOTHROW(BlockSet("all").check(0));
  CHECK_THROWS_WITH_AS(BlockSet("0-4").check(4), "the model has no block 4; it has 0 to 3", UsageError);
  CHECK_THROWS_WITH_AS(BlockSet("4-").check(4), "the model has no block 4; it has 0 to 3", UsageError);
  CHECK_THROWS_WITH_AS(BlockSet("0").check(0), "the model has no block 0; it has none", UsageError);
}

TEST_CASE("the same blocks are printed alike and in order and are read back") {
  const auto printed = [](const char* text) { return to_string(BlockSet(text)); };
  CHECK(printed("all") == "all");
  CHECK(printed(" 7 : 0 - 3 ") == "0-3:7");
  CHECK(printed("4-5:0-3:2") == "0-5");
  CHECK(printed("2-2:2") == "2");
  CHECK(printed("20-:0-9:12") == "0-9:12:20-");
  CHECK(BlockSet("0-9:12:20-") == BlockSet("20- : 12 : 0-9"));
  CHECK_FALSE(BlockSet("0-") == BlockSet("all"));  // only "all" has the ops outside of blocks
}

TEST_CASE("a block beyond the start of an open range must exist too") {
  CHECK(to_string(BlockSet("0-:9")) == "0-:9");
  CHECK_THROWS_WITH_AS(BlockSet("0-:9").check(4), "the model has no block 9; it has 0 to 3", UsageError);
}

}  // namespace memtune::block_ranges_test
