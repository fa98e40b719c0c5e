#include "gui/model/memory_model.h"

#include <doctest/doctest.h>

#include "tests/gui/traces.h"

namespace memtune::memory_model_test {

using namespace memtune;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

}  // namespace

TEST_CASE("the stack at a time has each owner's bytes and the rest is work space") {
  const gui::MemoryModel memory = gui::make_memory(test::small_trace());
  REQUIRE(memory.owners.size() == 2);
  CHECK(memory.owners[0].owner.name == "parameters");  // at the bottom, though it is the second owner
  const gui::Stack stack = memory.at(5 * test::kMs);
  CHECK(stack.allocated_bytes == 5 * kGiB);
  CHECK(stack.owned_bytes == std::vector<int64_t>{2 * kGiB, kGiB});
  CHECK(stack.work_space_bytes() == 2 * kGiB);
  CHECK(memory.at(9 * test::kMs).owned_bytes == std::vector<int64_t>{2 * kGiB, 0});
  CHECK(memory.at(-1).allocated_bytes == 0);
}

TEST_CASE("the peak is the largest sample") {
  const gui::MemoryModel memory = gui::make_memory(test::small_trace());
  CHECK(memory.times_ns[memory.peak] == 15 * test::kMs);
  CHECK(memory.allocated_bytes[memory.peak] == 6 * kGiB + 1);
}

TEST_CASE("the largest sample of any range equals that of a scan over all samples") {
  trace::Trace trace;
  uint32_t random = 1;
  for (int64_t i = 0; i < 3000; ++i) trace.memory.push_back({i * 10, (random = random * 1664525 + 1013904223) >> 8});
  const gui::MemoryModel memory = gui::make_memory(trace);
  for (int64_t start = 0; start < 30'000; start += 1377) {
    for (const int64_t length : {1, 10, 700, 2560, 9000, 40'000}) {
      CAPTURE(start);
      CAPTURE(length);
      const int64_t first = start / 10, last = std::min<int64_t>(2999, (start + length - 1) / 10);
      int64_t best = first;
      for (int64_t i = first; i <= last; ++i)
        if (trace.memory[i].allocated_bytes > trace.memory[best].allocated_bytes) best = i;
      CHECK(memory.greatest_between(start, start + length).allocated_bytes == trace.memory[best].allocated_bytes);
    }
  }
}

TEST_CASE("the largest of several samples at one time counts as peak and the last one stays") {
  trace::Trace trace;
  trace.owners = {{trace::MemoryOwnerKind::outside, "head"}};
  trace.owned = {{10, 0, 30}};
  trace.memory = {{0, 20}, {10, 100}, {10, 40}, {20, 50}};  // an op's work space ends with the op
  const gui::MemoryModel memory = gui::make_memory(trace);
  for (const int64_t start : {0, 5, 10}) {
    const gui::Stack stack = memory.greatest_between(start, 20);
    CHECK(stack.allocated_bytes == 100);
    CHECK(stack.owned_bytes == std::vector<int64_t>{30});
  }
  CHECK(memory.greatest_between(11, 20).allocated_bytes == 40);
  CHECK(memory.at(10).allocated_bytes == 40);
  CHECK(memory.of_sample(memory.peak).allocated_bytes == 100);
}

TEST_CASE("owners with more bytes than allocated leave no negative work space") {
  trace::Trace trace;
  trace.owners = {{trace::MemoryOwnerKind::outside, "head"}};
  trace.owned = {{0, 0, 100}};
  trace.memory = {{0, 60}};
  CHECK(gui::make_memory(trace).at(0).work_space_bytes() == 0);
}

}  // namespace memtune::memory_model_test
