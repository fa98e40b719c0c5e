// Names and messages come from untrusted files. A terminal must get only plain text from them.
#include "core/base/utf8.h"

#include <doctest/doctest.h>

namespace memtune::utf8_test {

using namespace memtune;

TEST_CASE("escape sequences and control characters never reach a terminal") {
  CHECK(printable("plain, × and …\n") == "plain, × and …\n");
  CHECK(printable("\x1b]0;pwned\x07") == "\xEF\xBF\xBD]0;pwned\xEF\xBF\xBD");
  CHECK(printable("a\rb\tc\x7f") ==
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD"
        "c\xEF\xBF\xBD");
  CHECK(printable("\xC2\x9B"
                  "31m") ==
        "\xEF\xBF\xBD"
        "31m");  // CSI as a single character
  CHECK(printable("\x9B"
                  "31m") ==
        "\xEF\xBF\xBD"
        "31m");
}

TEST_CASE("printable_line replaces line breaks") {
  CHECK(printable_line("none\nmemtune: all is well") == "none\xEF\xBF\xBDmemtune: all is well");
  CHECK(printable_line("plain, × and …") == "plain, × and …");
}

TEST_CASE("line separators and bidi controls are replaced") {
  const std::string other = "\xEF\xBF\xBD";
  for (const char* end :
       {"\v", "\f", "\r", "\x1C", "\x1D", "\x1E", "\x1F", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    CHECK(printable(end) == other);
    CHECK(printable_line(end) == other);
  }
  for (const char* mark :
       {"\xD8\x9C", "\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xAA", "\xE2\x80\xAB", "\xE2\x80\xAC", "\xE2\x80\xAD",
        "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA7", "\xE2\x81\xA8", "\xE2\x81\xA9"})
    CHECK(printable(mark) == other);
  for (const char* none : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) CHECK(printable(none) == other);  // invalid in YAML
  // Neighbors of these characters, a joiner and the byte order mark.
  for (const char* shown : {"\xC2\xA0", "\xD8\x9B", "\xE2\x80\x8D", "\xE2\x80\xA7", "\xE2\x80\xAF", "\xE2\x81\xA5",
                            "\xEF\xBB\xBF", "\xEF\xBF\xBC", "\xF0\x9F\x90\x91"})
    CHECK(printable_line(shown) == shown);
}

}  // namespace memtune::utf8_test
