// Two blocks that share bytes of the file would silently become one. The test compares the holes with a map of every
// unit.
#include "core/engine/disk/extent_allocator.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace memtune::extent_allocator_test {

using memtune::disk::ExtentAllocator;

TEST_CASE("an extent is taken from the first hole that is large enough") {
  ExtentAllocator extents;
  CHECK_FALSE(extents.take(1));
  extents.grow(100);
  CHECK(extents.take(60) == 0);
  CHECK(extents.take(30) == 60);
  CHECK_FALSE(extents.take(11));
  extents.deallocate(0, 60);
  CHECK(extents.take(10) == 0);
  CHECK(extents.take(10) == 10);
  CHECK(extents.used_bytes() == 50);
}

TEST_CASE("freed neighbors merge into one hole in every order") {
  const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    ExtentAllocator extents;
    extents.grow(30);
    for (int i = 0; i < 3; ++i) REQUIRE(extents.take(10) == i * 10);
    for (const int i : order) extents.deallocate(i * 10, 10);
    CHECK(extents.take(30) == 0);
  }
}

TEST_CASE("a hole at the end reduces the missing bytes") {
  ExtentAllocator extents;
  CHECK(extents.missing(50) == 50);
  extents.grow(100);
  CHECK(extents.missing(100) == 0);
  CHECK(extents.missing(120) == 20);
  REQUIRE(extents.take(80) == 0);
  CHECK(extents.missing(50) == 30);
  REQUIRE(extents.take(20) == 80);
  extents.deallocate(0, 80);  // not at the end
  CHECK(extents.missing(90) == 90);
  extents.grow(190);
  CHECK(extents.take(90) == 100);
}

TEST_CASE("growing to a smaller size has no effect") {
  ExtentAllocator extents;
  extents.grow(100);
  extents.grow(50);
  CHECK(extents.end() == 100);
  CHECK(extents.take(100) == 0);
}

TEST_CASE("in random histories no unit has two owners and freed extents merge into one hole") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    ExtentAllocator extents;
    std::vector<bool> taken;
    std::vector<std::pair<int64_t, int64_t>> held;
    int64_t used = 0;
    auto deallocate = [&](size_t which) {
      const auto [offset, bytes] = held[which];
      for (int64_t i = offset; i < offset + bytes; ++i) taken[static_cast<size_t>(i)] = false;
      extents.deallocate(offset, bytes);
      used -= bytes;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (int step = 0; step < 1000; ++step) {
      if (!held.empty() && random() % 2 == 0) {
        deallocate(random() % held.size());
      } else {
        const auto bytes = static_cast<int64_t>(1 + random() % 40);
        auto offset = extents.take(bytes);
        if (!offset) {
          extents.grow(extents.end() + extents.missing(bytes));
          taken.resize(static_cast<size_t>(extents.end()));
          offset = extents.take(bytes);
        }
        REQUIRE(offset);
        REQUIRE(*offset + bytes <= extents.end());
        for (int64_t i = *offset; i < *offset + bytes; ++i) {
          REQUIRE_FALSE(taken[static_cast<size_t>(i)]);
          taken[static_cast<size_t>(i)] = true;
        }
        held.emplace_back(*offset, bytes);
        used += bytes;
      }
      REQUIRE(extents.used_bytes() == used);
    }
    while (!held.empty()) deallocate(random() % held.size());
    CHECK(extents.used_bytes() == 0);
    CHECK(extents.take(extents.end()) == 0);
  }
}

}  // namespace memtune::extent_allocator_test
