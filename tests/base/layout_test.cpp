// Tables contain multi-byte characters (±, ×, −). A width in bytes would misalign every line.
#include "core/base/layout.h"

#include <doctest/doctest.h>

namespace memtune::base_layout_test {

using namespace memtune;
using Lines = std::vector<std::string>;

TEST_CASE("width counts characters and not bytes") {
  CHECK(display_width("") == 0);
  CHECK(display_width("step") == 4);
  CHECK(display_width("± 1 −GiB") == 8);
}

TEST_CASE("padding fills up to the width and leaves longer text alone") {
  CHECK(pad_left("≠ 1", 5) == "  ≠ 1");
  CHECK(pad_right("≠ 1", 5) == "≠ 1  ");
  CHECK(pad_left("longer", 3) == "longer");
}

TEST_CASE("text is wrapped at spaces and a word is broken only if it is wider than a line") {
  CHECK(wrap("one two three", 7) == Lines{"one two", "three"});
  CHECK(wrap("abcdefgh", 3) == Lines{"abc", "def", "gh"});
  CHECK(wrap("ab ±±±± c", 2) == Lines{"ab", "±±", "±±", "c"});
  CHECK(wrap("exactly", 7) == Lines{"exactly"});
}

TEST_CASE("control characters become spaces because they could control a terminal") {
  CHECK(wrap("a\nb\x1b[31mc\td", 80) == Lines{"a b [31mc d"});
}

TEST_CASE("empty text is one empty line and a width of zero terminates") {
  CHECK(wrap("", 10) == Lines{""});
  CHECK(wrap("ab", 0) == Lines{"a", "b"});
}

TEST_CASE("fixed rounds to the given number of digits") {
  CHECK(fixed(1.25, 1) == "1.2");
  CHECK(fixed(-0.5, 2) == "-0.50");
  CHECK(fixed(100, 0) == "100");
}

TEST_CASE("seconds are printed with the digits that they need") {
  using std::chrono::milliseconds;
  CHECK(seconds_text(milliseconds(120'000)) == "120 s");
  CHECK(seconds_text(milliseconds(2'500)) == "2.5 s");
  CHECK(seconds_text(milliseconds(25)) == "0.025 s");
  CHECK(seconds_text(milliseconds(0)) == "0 s");
}

TEST_CASE("long text ends in an ellipsis and its length counts characters") {
  CHECK(shorten("checkpoint", 10) == "checkpoint");
  CHECK(shorten("checkpoint", 6) == "check…");
  CHECK(shorten("層層層層", 3) == "層層…");
}

}  // namespace memtune::base_layout_test
