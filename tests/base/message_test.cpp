// The last message of another program has the reason and the remedy. No limit may cut that off.
#include "core/base/message.h"

#include <doctest/doctest.h>

#include "core/base/utf8.h"

namespace memtune::message_test {

using namespace memtune;

TEST_CASE("a long message loses its middle at character boundaries") {
  CHECK(bounded_message("short", 20) == "short");
  CHECK(bounded_message("it begins, it goes on and on, it ends", 25) == "it begins, ... n, it ends");
  const std::string wide = "äöüäöüäöüäöüäöüäöüäöü";
  for (size_t most = 8; most < wide.size(); ++most) {
    const std::string cut = bounded_message(wide, most);
    CHECK(cut.size() <= most);
    CHECK(valid_utf8(cut) == cut);
  }
}

TEST_CASE("a message of an allocator that ran out of memory is kept whole") {
  const std::string message = "CUDA out of memory. " + std::string(3000, 'x');
  CHECK(bounded_message(message, 100) == message);
  CHECK(bounded_message(message + message, 100).size() == 4000);
}

}  // namespace memtune::message_test
