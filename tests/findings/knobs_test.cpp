// Advice is only good when the words are those that memtune takes.
#include "core/findings/knobs.h"

#include <doctest/doctest.h>

using memtune::config::Plan;
using memtune::config::Schedule;
using memtune::findings::Knobs;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

Plan plan_of(const std::string& strategy) {
  Plan plan;
  plan.strategy = strategy;
  return plan;
}

}  // namespace

TEST_CASE("a strategy that offloads is told its own parameters") {
  const Plan plan = plan_of("checkpoint:cheap+offload:stream,fraction=0.4,keep_last=2");
  const Knobs knobs(plan.strategy, &plan);
  CHECK(knobs.deeper_prefetch() == "prefetch=1GiB -> prefetch=2GiB");
  CHECK(knobs.larger_stash() == "stash=8GiB -> stash=16GiB");
  CHECK(knobs.move_less(0.5) == "fraction=0.4 -> fraction=0.2");
  CHECK(knobs.keep_small(4 << 20) == "min=1MiB -> min=4MiB");
  CHECK(knobs.keep_last() == "keep_last=2 -> keep_last=3");
}

TEST_CASE("a prefetch of nothing becomes a gibibyte") {
  Plan plan = plan_of("offload:stream,prefetch=0");
  plan.transfer.prefetch_bytes = 0;
  CHECK(Knobs(plan.strategy, &plan).deeper_prefetch() == "prefetch=0B -> prefetch=1GiB");
}

TEST_CASE("copies by block count blocks, and its last block stays by default") {
  Plan plan = plan_of("offload:group");
  plan.transfer.schedule = Schedule::block;
  const Knobs knobs(plan.strategy, &plan);
  CHECK(knobs.deeper_prefetch() == "prefetch=1 -> prefetch=2");
  CHECK(knobs.larger_stash() == "in_flight=1 -> in_flight=2");
  CHECK(knobs.keep_last() == "keep_last=1 -> keep_last=2");
}

TEST_CASE("copies on the compute stream are told to leave it") {
  Plan plan = plan_of("offload:sync");
  plan.transfer.side_stream = false;
  CHECK(Knobs(plan.strategy, &plan).deeper_prefetch() ==
        "offload:sync -> offload:stream, whose copies run beside compute");
}

TEST_CASE("a plan by hand is told the fields of its file") {
  const Plan plan = plan_of("dear-13");
  const Knobs knobs(plan.strategy, &plan);
  CHECK(knobs.deeper_prefetch() == "\"prefetch_bytes\" of the plan's transfer 1GiB -> 2GiB");
  CHECK(knobs.larger_stash() == "\"stash_bytes\" of the plan's transfer 8GiB -> 16GiB");
  CHECK(knobs.move_less(0.5) == "place fewer values on host");
}

TEST_CASE("without a plan nothing is said of present settings") {
  const Knobs knobs("offload:stream", nullptr);
  CHECK(knobs.deeper_prefetch() == "a deeper prefetch");
  CHECK(knobs.larger_stash() == "a larger stash");
}

TEST_CASE("pageable memory is the plan's doing or the model's own") {
  Plan plan = plan_of("offload:stream,memory=pageable");
  CHECK(Knobs(plan.strategy, &plan).pinned().starts_with("the model copies"));
  plan.transfer.pinned = false;
  CHECK(Knobs(plan.strategy, &plan).pinned() == "memory=pageable -> memory=pinned");
  plan.strategy = "mine";
  CHECK(Knobs(plan.strategy, &plan).pinned() == "\"pinned\": true in the plan's transfer");
}

TEST_CASE("a least size that is there already is doubled") {
  Plan plan = plan_of("offload:stream,min=8MiB");
  plan.transfer.min_bytes = 8 << 20;
  CHECK(Knobs(plan.strategy, &plan).keep_small(4 << 20) == "min=8MiB -> min=16MiB");
}

TEST_CASE("shares go down in twentieths and never to nothing") {
  const Plan plan = plan_of("offload:stream");
  const Knobs knobs(plan.strategy, &plan);
  CHECK(knobs.move_less(0.62) == "fraction=1 -> fraction=0.6");
  CHECK(knobs.move_less(0.35) == "fraction=1 -> fraction=0.35");
  CHECK(knobs.move_less(0.0) == "fraction=1 -> fraction=0.05");
}
