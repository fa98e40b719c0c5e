// The command line in a trace can be typed into a shell again.
#include "core/sweep/loop/command_line.h"

#include <doctest/doctest.h>

namespace memtune::command_line_test {

using namespace memtune::sweep;

TEST_CASE("the command line of this process starts with the program name without its folder") {
  CHECK(command_line().starts_with("memtune-tests"));
}

}  // namespace memtune::command_line_test
