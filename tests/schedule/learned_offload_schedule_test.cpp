// What a step teaches, by numbers that can be checked by hand: one drawing of learned_offload_schedule.h after the
// other.
#include "core/plan/schedule/learned_offload_schedule.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <map>

namespace memtune::schedule {
namespace {

// A step whose unpacks hold at most `held`, each until the next; `wanted`: unpack -> the transfer that it asks for.
LearnedOffloadSchedule learned(std::initializer_list<int64_t> held, const std::map<int, std::size_t>& wanted,
                               int64_t forward_bytes = 0) {
  LearnedOffloadSchedule schedule;
  schedule.begin_learning();
  schedule.begin_step();
  int64_t since = 1 << 20;  // the forward's, which is told apart
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

TEST_CASE("nothing is known before a step was learned from, nor while one is") {
  LearnedOffloadSchedule schedule;
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

TEST_CASE("the goal is the most that the step held, in its forward, between two unpacks or behind the last") {
  CHECK(learned({9, 7, 4}, {}).goal_bytes() == 9);
  CHECK(learned({4, 7, 9}, {}).goal_bytes() == 9);
  CHECK(learned({4, 7, 9}, {}, /*forward_bytes=*/11).goal_bytes() == 11);
}

TEST_CASE("a value may come back when every stretch until its use has room for it") {
  LearnedOffloadSchedule schedule = learned({9, 9, 7, 4, 4}, {{3, 5}});
  const auto fits = [&] { return schedule.fits_until_wanted(5, 2); };
  CHECK_FALSE(fits());      // in the forward
  schedule.begin_unpack();  // 0
  CHECK_FALSE(fits());
  schedule.begin_unpack();  // 1
  CHECK_FALSE(fits());
  schedule.begin_unpack();  // 2: 7 + 2 are the goal
  CHECK(fits());
  CHECK_FALSE(schedule.fits_until_wanted(5, 3));
}

TEST_CASE("who lets a value wait holds the room that it takes, until it is wanted and no longer") {
  LearnedOffloadSchedule schedule = learned({9, 5, 5, 5, 9}, {{4, 0}, {2, 1}});
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

TEST_CASE("of a step with several passes counts, at each unpack, the one that held most") {
  LearnedOffloadSchedule schedule;
  schedule.begin_learning();
  for (const int64_t gradients : {0, 3, 3}) {  // from the second pass on
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

TEST_CASE("what is held is forgotten with its step, what was learned is not") {
  LearnedOffloadSchedule schedule = learned({5, 9}, {{1, 0}});
  schedule.hold_until_wanted(0, 4);
  CHECK_FALSE(schedule.fits_until_wanted(0, 1));
  schedule.begin_step();
  CHECK(schedule.fits_until_wanted(0, 4));
}

TEST_CASE("the first unpack that asks decides") {
  LearnedOffloadSchedule schedule;
  schedule.begin_learning();
  schedule.begin_step();
  for (const int64_t held : {0, 4, 9}) {
    schedule.begin_unpack(held);
    schedule.ask(0);
  }
  schedule.end_learning(0, 9);
  schedule.begin_step();
  CHECK(schedule.fits_until_wanted(0, 100));  // it is wanted at once: nothing lies between
}

TEST_CASE("a transfer that nobody asked for, or that came later, is not let wait") {
  const LearnedOffloadSchedule schedule = learned({4, 9}, {{1, 3}});
  CHECK(schedule.fits_until_wanted(3, 1));
  CHECK_FALSE(schedule.fits_until_wanted(2, 1));
  CHECK_FALSE(schedule.fits_until_wanted(4, 1));
}

TEST_CASE("a step with more unpacks than the learned one goes on without holding anything") {
  LearnedOffloadSchedule schedule = learned({4, 9}, {{1, 0}});
  for (int unpack = 0; unpack < 5; ++unpack) schedule.begin_unpack();
  schedule.hold_until_wanted(0, 1);
  CHECK(schedule.fits_until_wanted(0, 1));  // it is past its use
}

TEST_CASE("learning again begins anew") {
  LearnedOffloadSchedule schedule = learned({9, 9}, {{1, 0}});
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
}  // namespace memtune::schedule
