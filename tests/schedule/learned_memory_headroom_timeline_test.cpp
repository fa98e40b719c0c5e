// The schedule learns from a step, with numbers that can be checked by hand. The cases follow the drawings of
// learned_memory_headroom.h.
#include "core/plan/schedule/learned_memory_headroom_timeline.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <map>
namespace memtune::schedule::learned_memory_headroom_test {
namespace {

// Learns a step. `held`: the most bytes held from each unpack to the next. `wanted`: unpack -> the transfer that it
// asks for.
LearnedMemoryHeadroomTimeline learned(std::initializer_list<int64_t> held, const std::map<int, std::size_t>& wanted,
                                      int64_t forward_bytes = 0) {
  LearnedMemoryHeadroomTimeline schedule;
  schedule.begin_learning();
  schedule.begin_step();
  int64_t since = 1 << 20;  // of forward, which is passed separately
  int unpack = 0;
  for (const int64_t bytes : held) {
    schedule.begin_unpack(since);
    if (const auto asked = wanted.find(unpack++); asked != wanted.end()) schedule.ask(asked->second);
    since = bytes;
  }
  schedule.end_learning(forward_bytes, since);
  schedule.begin_step();
  return schedule;
}

TEST_CASE("nothing is known before or while a step is learned") {
  LearnedMemoryHeadroomTimeline schedule;
  CHECK_FALSE(schedule.learned());
  schedule.begin_learning();
  schedule.begin_step();
  CHECK(schedule.learning());
  CHECK_FALSE(schedule.learned());
  schedule.begin_unpack(0);
  CHECK_FALSE(schedule.fits_until_wanted(0, 1));
  schedule.end_learning(5, 3);
  CHECK(schedule.learned());
  CHECK_FALSE(schedule.learning());
}

TEST_CASE("the goal is the peak of the learned step in forward or between unpacks or after the last") {
  CHECK(learned({9, 7, 4}, {}).goal_bytes() == 9);
  CHECK(learned({4, 7, 9}, {}).goal_bytes() == 9);
  CHECK(learned({4, 7, 9}, {}, /*forward_bytes=*/11).goal_bytes() == 11);
}

TEST_CASE("a value may be reloaded if every interval until its use has room for it") {
  LearnedMemoryHeadroomTimeline schedule = learned({9, 9, 7, 4, 4}, {{3, 5}});
  const auto fits = [&] { return schedule.fits_until_wanted(5, 2); };
  CHECK_FALSE(fits());      // in the forward
  schedule.begin_unpack();  // 0
  CHECK_FALSE(fits());
  schedule.begin_unpack();  // 1
  CHECK_FALSE(fits());
  schedule.begin_unpack();  // 2: 7 + 2 equal the goal
  CHECK(fits());
  CHECK_FALSE(schedule.fits_until_wanted(5, 3));
}

TEST_CASE("a value that is held until its use occupies its room until then and no longer") {
  LearnedMemoryHeadroomTimeline schedule = learned({9, 5, 5, 5, 9}, {{4, 0}, {2, 1}});
  schedule.begin_unpack();
  schedule.begin_unpack();  // 1: 4 are free up to unpack 4
  CHECK(schedule.fits_until_wanted(0, 4));
  schedule.hold_until_wanted(1, 3);  // until 2
  CHECK_FALSE(schedule.fits_until_wanted(0, 2));
  CHECK(schedule.fits_until_wanted(0, 1));
  schedule.begin_unpack();  // 2
  CHECK(schedule.fits_until_wanted(0, 4));
  schedule.hold_until_wanted(0, 4);
  CHECK_FALSE(schedule.fits_until_wanted(0, 1));
}

TEST_CASE("a step with several micro-batches counts the most that any of them held at an unpack") {
  LearnedMemoryHeadroomTimeline schedule;
  schedule.begin_learning();
  for (const int64_t gradients : {0, 3, 3}) {  // from the second micro-batch on
    schedule.begin_step();
    for (const int64_t held : {0, 6, 4}) schedule.begin_unpack(gradients + held);
    schedule.ask(0);
  }
  schedule.end_learning(/*forward_bytes=*/0, /*last_bytes=*/5);
  CHECK(schedule.goal_bytes() == 9);
  schedule.begin_step();
  CHECK_FALSE(schedule.fits_until_wanted(0, 1));
  schedule.begin_unpack();
  schedule.begin_unpack();  // 4 + 3 are held until the next
  CHECK(schedule.fits_until_wanted(0, 2));
  CHECK_FALSE(schedule.fits_until_wanted(0, 3));
}

TEST_CASE("held values are forgotten at the end of a step and the learned step is not") {
  LearnedMemoryHeadroomTimeline schedule = learned({5, 9}, {{1, 0}});
  schedule.hold_until_wanted(0, 4);
  CHECK_FALSE(schedule.fits_until_wanted(0, 1));
  schedule.begin_step();
  CHECK(schedule.fits_until_wanted(0, 4));
}

TEST_CASE("the first unpack that asks for a transfer decides") {
  LearnedMemoryHeadroomTimeline schedule;
  schedule.begin_learning();
  schedule.begin_step();
  for (const int64_t held : {0, 4, 9}) {
    schedule.begin_unpack(held);
    schedule.ask(0);
  }
  schedule.end_learning(0, 9);
  schedule.begin_step();
  CHECK(schedule.fits_until_wanted(0, 100));  // it is needed at once: no interval is between
}

TEST_CASE("a transfer that the learned step did not ask for is not reloaded early") {
  const LearnedMemoryHeadroomTimeline schedule = learned({4, 9}, {{1, 3}});
  CHECK(schedule.fits_until_wanted(3, 1));
  CHECK_FALSE(schedule.fits_until_wanted(2, 1));
  CHECK_FALSE(schedule.fits_until_wanted(4, 1));
}

TEST_CASE("a step with more unpacks than the learned one continues and holds nothing") {
  LearnedMemoryHeadroomTimeline schedule = learned({4, 9}, {{1, 0}});
  for (int unpack = 0; unpack < 5; ++unpack) schedule.begin_unpack();
  schedule.hold_until_wanted(0, 1);
  CHECK(schedule.fits_until_wanted(0, 1));  // it is past its use
}

TEST_CASE("learning again replaces the learned step") {
  LearnedMemoryHeadroomTimeline schedule = learned({9, 9}, {{1, 0}});
  schedule.begin_learning();
  schedule.begin_step();
  CHECK_FALSE(schedule.learned());
  schedule.begin_unpack(0);
  schedule.end_learning(3, 2);
  schedule.begin_step();
  CHECK(schedule.goal_bytes() == 3);
  CHECK_FALSE(schedule.fits_until_wanted(0, 1));
}

}  // namespace
}  // namespace memtune::schedule::learned_memory_headroom_test
