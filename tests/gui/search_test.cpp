#include "gui/model/search.h"

#include <doctest/doctest.h>

#include "tests/gui/traces.h"

namespace memtune::search_test {

using namespace memtune;

TEST_CASE("search finds names and regions and placements in any case and in time order") {
  const trace::Trace trace = test::small_trace(1);
  gui::Search search;
  search.find(trace, "NORM");
  CHECK(search.hits().size() == 3);  // the kernel, saved, used
  search.find(trace, "disk");
  CHECK(search.hits().size() == 6);  // all events of the activation placed on disk
  for (size_t i = 1; i < search.hits().size(); ++i)
    CHECK(trace.events[search.hits()[i]].start_ns >= trace.events[search.hits()[i - 1]].start_ns);
  search.find(trace, "");
  CHECK(search.hits().empty());
}

TEST_CASE("steps through the hits start at the visible range and wrap around") {
  const trace::Trace trace = test::small_trace(3);
  gui::Search search;
  search.find(trace, "up backward");
  REQUIRE(search.hits().size() == 3);
  CHECK(search.step(trace, true, 10 * test::kMs) == search.hits()[1]);
  CHECK(search.step(trace, true, 0) == search.hits()[2]);
  CHECK(search.step(trace, true, 0) == search.hits()[0]);
  CHECK(search.step(trace, false, 0) == search.hits()[2]);
  CHECK(search.step(trace, false, 0) == search.hits()[1]);
  search.find(trace, "up backward");
  CHECK(search.step(trace, true, 99 * test::kMs) == search.hits()[0]);
  search.find(trace, "nowhere");
  CHECK_FALSE(search.step(trace, true, 0).has_value());
}

}  // namespace memtune::search_test
