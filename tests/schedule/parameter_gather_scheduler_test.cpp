// When units are gathered and freed, checked by hand: g1 gathers unit 1, w1 waits for it, f1 frees it.
#include "core/plan/schedule/parameter_gather_scheduler.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "core/base/error.h"

namespace memtune::unit_gather_schedule_test {

using namespace memtune;
using schedule::ParameterGatherScheduler;
using schedule::ReshardPolicy;

namespace {

class Notes final : public schedule::ParameterGatherBackend {
 public:
  explicit Notes(int units) : coming_(units), there_(units) {}
  void gather(int unit) override {
    coming_[unit] = there_[unit] = true;
    text_ += " g" + std::to_string(unit);
  }
  void wait(int unit) override {
    if (coming_[unit]) text_ += " w" + std::to_string(unit);
    coming_[unit] = false;
  }
  void free(int unit) override {
    if (there_[unit]) text_ += " f" + std::to_string(unit);
    there_[unit] = false;
  }
  std::string take() { return std::exchange(text_, ""); }

 private:
  std::vector<bool> coming_, there_;
  std::string text_;
};

struct Step {
  explicit Step(ReshardPolicy reshard) : schedule(3, reshard, notes) {}

  std::string forward() {
    schedule.begin_step();
    schedule.begin_forward();
    for (const int unit : {0, 1, 2}) schedule.read({unit});
    return notes.take();
  }
  std::string backward() {
    schedule.begin_backward();
    for (const int unit : {2, 1, 0}) schedule.read_by_node({unit});
    schedule.end_backward();
    return notes.take();
  }

  Notes notes{3};
  ParameterGatherScheduler schedule;
};

}  // namespace

TEST_CASE("a known pass gathers one unit ahead and frees the one before") {
  Step step(ReshardPolicy::always);
  CHECK(step.forward() == " g0 w0 f0 g1 w1 f1 g2 w2");
  CHECK(step.backward() == " f2 g1 w1 f1 g0 w0 f0");  // the last one is resident
  CHECK(step.forward() == " g0 w0 g1 f0 w1 g2 f1 w2");
  CHECK(step.backward() == " g1 f2 w1 g0 f1 w0 f0");
}

TEST_CASE("the reshard policy keeps units of forward until backward or forever") {
  Step kept(ReshardPolicy::after_backward);
  kept.forward();
  kept.backward();
  CHECK(kept.forward() == " g0 w0 g1 w1 g2 w2");
  CHECK(kept.backward() == " f2 f1 f0");
  Step never(ReshardPolicy::never);
  never.forward();
  CHECK(never.backward() == "");
  CHECK(never.forward() == " g0 w0 g1 w1 g2 w2");
}

TEST_CASE("a unit for recomputation is gathered while the unit of the node stays") {
  Step step(ReshardPolicy::always);
  step.forward();
  step.backward();
  step.forward();
  step.schedule.begin_backward();
  step.schedule.read_by_node({2});
  step.notes.take();
  step.schedule.read_again({1});  // is on its way, and 0 is gathered ahead
  CHECK(step.notes.take() == " w1 g0");
  step.schedule.read_again({2});
  CHECK(step.notes.take() == "");
  step.schedule.read_by_node({0});
  CHECK(step.notes.take() == " f1 f2 w0");
}

TEST_CASE("a unit with interleaved readers is gathered once more and then stays") {
  Step step(ReshardPolicy::always);
  step.schedule.begin_step();
  step.schedule.begin_forward();
  for (const int unit : {0, 1, 0, 1, 0, 1}) step.schedule.read({unit});
  CHECK(step.notes.take() == " g0 w0 f0 g1 w1 f1 g0 w0 f0 g1 w1 f1 g0 w0 g1 w1");
}

TEST_CASE("units of a forward without a backward are waited for and freed") {
  Step step(ReshardPolicy::always);
  step.forward();
  step.schedule.begin_step();
  step.schedule.begin_forward();  // gathers 0 ahead
  step.notes.take();
  step.schedule.drop();
  CHECK(step.notes.take() == " w0 f0");
  CHECK_THROWS_AS(schedule::parse_reshard("sometimes"), UsageError);
}

}  // namespace memtune::unit_gather_schedule_test
