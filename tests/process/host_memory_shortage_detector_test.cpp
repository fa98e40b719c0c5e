// A model may ask for any amount of memory. The machine's other processes must not end for it.
#include "core/measure/process/host_memory_shortage_detector.h"

#include <doctest/doctest.h>

#include <thread>

namespace memtune::tests::host_memory_watch_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

bool short_after(int64_t start, int64_t now) {
  int64_t bytes = start;
  process::HostMemoryShortageDetector watch([&] { return bytes; });
  bytes = now;
  return watch.is_short();
}

}  // namespace

TEST_CASE("memory is short when a thirty-second of what was there is left, between 128 MiB and 1 GiB") {
  CHECK(short_after(16384 * kMiB, 511 * kMiB));
  CHECK_FALSE(short_after(16384 * kMiB, 512 * kMiB));
  CHECK(short_after(1024 * kMiB, 127 * kMiB));
  CHECK_FALSE(short_after(1024 * kMiB, 128 * kMiB));
  CHECK(short_after(int64_t{1} << 40, 1023 * kMiB));
  CHECK_FALSE(short_after(int64_t{1} << 40, 1024 * kMiB));
}

TEST_CASE("a machine without memory to spare from the beginning is not short") {
  CHECK_FALSE(short_after(255 * kMiB, 0));
  CHECK_FALSE(short_after(0, 0));
}

TEST_CASE("memory that was short stays so, and the reason has both figures") {
  int64_t bytes = 16384 * kMiB;
  process::HostMemoryShortageDetector watch([&] { return bytes; });
  CHECK_FALSE(watch.is_short());
  bytes = 0;
  CHECK_FALSE(watch.is_short());  // too early to look again
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK(watch.is_short());
  bytes = 16384 * kMiB;
  CHECK(watch.is_short());
  CHECK(watch.reason() == "less than 512 MiB are left of the 16 GiB that were available at its start");
}

}  // namespace memtune::tests::host_memory_watch_test
