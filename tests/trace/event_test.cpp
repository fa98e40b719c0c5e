// Events point at names and tracks by index; a lookup that is slow or gives wrong indices spoils every trace.
#include "core/trace/event.h"

#include <doctest/doctest.h>

#include <string>

using namespace memtune::trace;

TEST_CASE("a name is added once and found again") {
  Trace trace;
  CHECK(trace.name("gemm") == 0);
  CHECK(trace.name("") == 1);
  CHECK(trace.name("gemm") == 0);
  CHECK(trace.names == std::vector<std::string>{"gemm", ""});
}

TEST_CASE("names that a reader filled in are found, doubles at their first place") {
  Trace trace;
  trace.names = {"a", "b", "a"};
  CHECK(trace.name("b") == 1);
  CHECK(trace.name("a") == 0);
  CHECK(trace.name("c") == 3);
  CHECK(trace.name("d") == 4);
  CHECK(trace.name("c") == 3);
}

TEST_CASE("a hundred thousand names are found in the time of one look each") {
  Trace trace;
  bool right = true;
  for (int round = 0; round < 2; ++round)
    for (uint32_t i = 0; i < 100'000; ++i) right = right && trace.name("kernel " + std::to_string(i)) == i;
  CHECK(right);
  CHECK(trace.names.size() == 100'000);
}

TEST_CASE("tracks of one name on host and device are two") {
  Trace trace;
  CHECK(trace.track("copy out", true) == 0);
  CHECK(trace.track("copy out", false) == 1);
  CHECK(trace.track("copy out", true) == 0);
  CHECK(trace.tracks.size() == 2);
  CHECK_FALSE(trace.tracks[1].device);
}

TEST_CASE("every kind has its own name") {
  CHECK(to_string(EventKind::kernel) == "kernel");
  CHECK(to_string(EventKind::copy_out) == "copy_out");
  CHECK(to_string(EventKind::copy_in) == "copy_in");
  CHECK(to_string(EventKind::copy_device) == "copy_device");
  CHECK(to_string(EventKind::memset) == "memset");
  CHECK(to_string(EventKind::wait) == "wait");
  CHECK(to_string(EventKind::op) == "op");
  CHECK(to_string(EventKind::region) == "region");
}
