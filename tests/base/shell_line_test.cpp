// What memtune prints can be typed into a shell.
#include "core/base/shell_line.h"

#include <doctest/doctest.h>

namespace memtune::shell_line_test {

using namespace memtune;

TEST_CASE("only words that a shell would change are quoted") {
  CHECK(shell_line({"memtune", "sweep", "--batch=1,2", "./a-b_c.pt"}) == "memtune sweep --batch=1,2 ./a-b_c.pt");
  CHECK(shell_line({"--input", "t:int64[4]<9"}) == "--input 't:int64[4]<9'");
  CHECK(shell_line({"", "it's", "a b"}) == "'' 'it'\\''s' 'a b'");
}

TEST_CASE("control characters are written as codes that a shell reads back") {
  CHECK(shell_line({"a\x1b[31m"}) == "$'a\\x1b[31m'");
  CHECK(shell_line({"\xE2\x80\xAE'\\\n"}) == "$'\\xe2\\x80\\xae\\x27\\x5c\\x0a'");
  CHECK(shell_line({"\xFF"}) == "$'\\xff'");
  CHECK(shell_line({"two\nlines \xC3\xA4"}) == "'two\nlines \xC3\xA4'");
}

}  // namespace memtune::shell_line_test
