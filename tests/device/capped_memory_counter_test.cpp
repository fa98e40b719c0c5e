// These counters give the peaks on the CPU device. They must be exact, even after a refused allocation.
#include "core/base/device/capped_memory_counter.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace memtune::memory_counter_test {

using memtune::device::CappedMemoryCounter;

TEST_CASE("the peak stays after memory is freed until it is reset") {
  CappedMemoryCounter counter;
  CHECK(counter.take(4000));
  CHECK(counter.take(1));
  counter.deallocate(1);
  CHECK(counter.allocated() == 4000);
  CHECK(counter.peak() == 4001);
  counter.deallocate(4000);
  CHECK(counter.allocated() == 0);
  CHECK(counter.peak() == 4001);
  counter.reset_peak();
  CHECK(counter.peak() == 0);
}

TEST_CASE("requests up to the cap succeed and a larger one fails without an effect") {
  CappedMemoryCounter counter;
  REQUIRE(counter.take(600));
  counter.set_cap(1000);
  CHECK_FALSE(counter.take(401));
  CHECK(counter.allocated() == 600);
  CHECK(counter.peak() == 600);
  CHECK(counter.take(400));
  CHECK(counter.allocated() == 1000);
  counter.set_cap(0);
  CHECK(counter.take(5000));
}

TEST_CASE("counters stay exact when threads allocate concurrently and some requests fail") {
  CappedMemoryCounter counter;
  counter.set_cap(3000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i)
        if (counter.take(1000)) counter.deallocate(1000);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(counter.allocated() == 0);
  CHECK(counter.peak() <= 3000);
  CHECK(counter.peak() % 1000 == 0);
}

}  // namespace memtune::memory_counter_test
