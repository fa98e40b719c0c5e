// What a trace says it was recorded with can be typed again.
#include "core/sweep/loop/command_line.h"

#include <doctest/doctest.h>

using namespace memtune::sweep;

TEST_CASE("words that a shell would change are quoted, others are not") {
  CHECK(shell_line({"memtune", "sweep", "--batch=1,2", "./a-b_c.pt"}) == "memtune sweep --batch=1,2 ./a-b_c.pt");
  CHECK(shell_line({"--input", "t:int64[4]<9"}) == "--input 't:int64[4]<9'");
  CHECK(shell_line({"", "it's", "a b"}) == "'' 'it'\\''s' 'a b'");
}

TEST_CASE("a word with what a terminal acts on is written in codes that a shell reads back") {
  CHECK(shell_line({"a\x1b[31m"}) == "$'a\\x1b[31m'");
  CHECK(shell_line({"\xE2\x80\xAE'\\\n"}) == "$'\\xe2\\x80\\xae\\x27\\x5c\\x0a'");
  CHECK(shell_line({"\xFF"}) == "$'\\xff'");
  CHECK(shell_line({"two\nlines \xC3\xA4"}) == "'two\nlines \xC3\xA4'");
}

TEST_CASE("this process's command line begins with the program, without its folder") {
  CHECK(command_line().starts_with("memtune-tests"));
}
