#include "core/base/median.h"

#include <doctest/doctest.h>

namespace memtune::median_test {

TEST_CASE("the median of an even number of samples is the mean of the middle two") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 4}) == 4);
  CHECK(median({8, 1, 100, 2}) == 5);
}

TEST_CASE("the upper median of an even number of samples is the larger of the middle two") {
  CHECK(upper_median({}) == 0);
  CHECK(upper_median({9, 1, 4}) == 4);
  CHECK(upper_median({8, 1, 100, 2}) == 8);
}

}  // namespace memtune::median_test
