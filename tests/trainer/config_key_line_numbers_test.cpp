// Comments above the lines of a user's config.
#include "core/answer/trainer/config_key_line_numbers.h"

#include <doctest/doctest.h>

namespace memtune::key_lines_test {

using memtune::trainer::with_comments;

TEST_CASE("comments are placed above a line and replace those of an earlier export") {
  const std::string once = with_comments("---\nz: 1\nb: 2\na: 1\n", {"# memtune 1: x", "# more"}, 3);
  CHECK(once == "---\nz: 1\n# memtune 1: x\n# more\nb: 2\na: 1\n");
  CHECK(with_comments(once, {"# memtune 2: y"}, 5) == "---\nz: 1\n# memtune 2: y\nb: 2\na: 1\n");
  CHECK(with_comments("# mine\na: 1\n", {"# memtune 1"}, 2) == "# mine\n# memtune 1\na: 1\n");
  CHECK(with_comments("a: 1\n", {"# memtune 1"}, 0) == "a: 1\n# memtune 1\n");
  CHECK(with_comments("\xEF\xBB\xBF"
                      "a: 1\n",
                      {"# memtune 1"}, 1) == "\xEF\xBB\xBF# memtune 1\na: 1\n");
}

}  // namespace memtune::key_lines_test
