// Events refer to names and tracks by index. A slow lookup or a wrong index breaks every trace.
#include "core/record/trace/trace_event.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace memtune::trace_event_test {

using namespace memtune::trace;

TEST_CASE("a name is added once and then found") {
  Trace trace;
  CHECK(trace.name("gemm") == 0);
  CHECK(trace.name("") == 1);
  CHECK(trace.name("gemm") == 0);
  CHECK(trace.names == std::vector<std::string>{"gemm", ""});
}

TEST_CASE("names filled in by a reader are found and duplicates resolve to the first") {
  Trace trace;
  trace.names = {"a", "b", "a"};
  CHECK(trace.name("b") == 1);
  CHECK(trace.name("a") == 0);
  CHECK(trace.name("c") == 3);
  CHECK(trace.name("d") == 4);
  CHECK(trace.name("c") == 3);
}

TEST_CASE("a hundred thousand names are found in constant time each") {
  Trace trace;
  bool right = true;
  for (int round = 0; round < 2; ++round)
    for (uint32_t i = 0; i < 100'000; ++i) right = right && trace.name("kernel " + std::to_string(i)) == i;
  CHECK(right);
  CHECK(trace.names.size() == 100'000);
}

TEST_CASE("a track is identified by role and stream and rank") {
  Trace trace;
  CHECK(trace.track({TrackRole::copy_out, 20}) == 0);
  CHECK(trace.track({TrackRole::copy_out, 21}) == 1);
  CHECK(trace.track({TrackRole::copy_out, 20}) == 0);
  CHECK(trace.track({TrackRole::copy_out, 20, 1}) == 2);
  CHECK(trace.track({TrackRole::copy_in, 20}) == 3);
  CHECK(trace.tracks.size() == 4);
}

TEST_CASE("tracks have readable names") {
  CHECK(to_string(Track{TrackRole::compute, 7}) == "compute stream 7");
  CHECK(to_string(Track{TrackRole::copy_out}) == "copy out");
  CHECK(to_string(Track{TrackRole::stream, 5}) == "stream 5");
  CHECK(to_string(Track{TrackRole::stream}) == "stream");
  CHECK(to_string(Track{TrackRole::steps}) == "steps");
  Trace trace;
  trace.tracks = {{TrackRole::compute, 7, 3}};
  CHECK(name_of_track(trace, trace.tracks[0]) == "compute stream 7");
  trace.tracks.push_back({TrackRole::copy_in, 21, 0});
  CHECK(name_of_track(trace, trace.tracks[0]) == "rank 3, compute stream 7");
  CHECK(name_of_track(trace, trace.tracks[1]) == "rank 0, copy in stream 21");
}

TEST_CASE("every event kind has a unique word") {
  std::set<std::string> words;
  for (int kind = 0; kind <= static_cast<int>(EventKind::collective); ++kind)
    words.insert(to_string(static_cast<EventKind>(kind)));
  CHECK(words.size() == 13);
  CHECK(to_string(EventKind::kernel) == "kernel");
  CHECK(to_string(EventKind::op) == "op");
  CHECK(to_string(EventKind::use) == "use");
  CHECK(to_string(EventKind::collective) == "collective");
}

TEST_CASE("roles and owners are parsed from their words and from no others") {
  for (int role = 0; role <= static_cast<int>(TrackRole::stream); ++role)
    CHECK(parse_track_role(to_string(static_cast<TrackRole>(role))) == static_cast<TrackRole>(role));
  for (int kind = 0; kind <= static_cast<int>(MemoryOwnerKind::work_space); ++kind)
    CHECK(parse_owner_kind(to_string(static_cast<MemoryOwnerKind>(kind))) == static_cast<MemoryOwnerKind>(kind));
  CHECK_FALSE(parse_track_role("compute stream 7").has_value());
  CHECK_FALSE(parse_owner_kind("").has_value());
}

TEST_CASE("an empty value id is not an index of any table") {
  CHECK_FALSE(ValueId());
  CHECK(ValueId(0));
  CHECK(ValueId(0) != ValueId());
  CHECK(ValueId().index() >= UINT32_MAX);
}

}  // namespace memtune::trace_event_test
