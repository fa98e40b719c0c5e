// Names and reasons come from files of strangers: on a terminal they are text and nothing else.
#include "core/base/utf8.h"

#include <doctest/doctest.h>

using namespace memtune;

TEST_CASE("nothing of an escape sequence or a control character reaches a terminal") {
  CHECK(printable("plain, × and …\n") == "plain, × and …\n");
  CHECK(printable("\x1b]0;pwned\x07") == "\xEF\xBF\xBD]0;pwned\xEF\xBF\xBD");
  CHECK(printable("a\rb\tc\x7f") ==
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD"
        "c\xEF\xBF\xBD");
  CHECK(printable("\xC2\x9B"
                  "31m") ==
        "\xEF\xBF\xBD"
        "31m");  // CSI in one character
  CHECK(printable("\x9B"
                  "31m") ==
        "\xEF\xBF\xBD"
        "31m");
}

TEST_CASE("what has to stay on its line brings no line of its own") {
  CHECK(printable_line("none\nmemtune: all is well") == "none\xEF\xBF\xBDmemtune: all is well");
  CHECK(printable_line("plain, × and …") == "plain, × and …");
}
