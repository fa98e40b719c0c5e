// The engine and the step simulator ask this class when rows of parameters, gradients and optimizer states are copied,
// and when they are updated. Its calls are compared with those that docs and header describe.
#include "core/plan/schedule/model_state_offload_scheduler.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace memtune::state_schedule_test {
namespace {

using schedule::ModelStateKind;
using schedule::ModelStateOffloadScheduler;

// Records calls as "load p1". Group 0 stays on the device; groups 1 and 2 are offloaded.
class Rows final : public schedule::ModelStateCopyAndUpdateBackend {
 public:
  std::string take() { return std::exchange(calls_, ""); }

  bool offloads(int group) const override { return group > 0; }
  bool has_gradients(int group) const override { return with_gradients_.contains(group); }
  void load(int group, ModelStateKind row) override { note("load", group, row); }
  void wait(int, ModelStateKind) override {}
  void store(int group, ModelStateKind row) override { note("store", group, row); }
  void free(int, ModelStateKind) override {}
  void settle(int) override {}
  void take_gradients(int group) override {
    with_gradients_.insert(group);
    if (group > 0) calls_ += "take " + std::to_string(group) + "; ";
  }
  void note_norms(int group) override { calls_ += "norm " + std::to_string(group) + "; "; }
  void begin_clipping() override { calls_ += "clip; "; }
  void update(int group) override {
    with_gradients_.erase(group);
    calls_ += "update " + std::to_string(group) + "; ";
  }

 private:
  void note(const std::string& call, int group, ModelStateKind row) {
    if (group > 0) calls_ += call + " " + "pgm"[static_cast<int>(row)] + std::to_string(group) + "; ";
  }

  std::string calls_;
  std::set<int> with_gradients_;
};

class Steps {
 public:
  Steps(int passes, bool clips) : schedule_({{0, 1}, {1, 1}, {2, 1}}, rows_) {
    schedule_.begin_updating(passes, clips);
    for (int step = 0; step < 2; ++step) {  // learns the order
      begin();
      for (int pass = 0; pass < passes; ++pass) {
        forward();
        backward();
      }
    }
    rows_.take();
  }

  void begin() { schedule_.begin_step(); }
  std::string forward() {
    schedule_.begin_forward();
    for (const int unit : {0, 1, 2}) schedule_.units().read({unit});
    return rows_.take();
  }
  std::string backward() {
    schedule_.begin_backward();
    for (const int unit : {2, 1, 0}) {
      schedule_.units().read_by_node({unit});
      schedule_.gradient_made(unit);
    }
    schedule_.end_backward();
    return rows_.take();
  }
  std::string finish() {
    schedule_.finish_updates();
    return rows_.take();
  }

 private:
  Rows rows_;
  ModelStateOffloadScheduler schedule_;
};

TEST_CASE("a unit is loaded one ahead and updated as soon as its gradients are made") {
  Steps steps(1, false);
  steps.begin();
  CHECK(steps.forward() == "load p1; load p2; ");
  CHECK(steps.backward() ==
        "load m2; load p1; load p2; load m2; update 2; store p2; store m2; "
        "load m1; load p1; load m1; update 1; store p1; store m1; update 0; ");
  CHECK(steps.finish() == "");
}

TEST_CASE("moments of an embedding are loaded in the unit in which backward makes its gradient") {
  Rows rows;
  const std::vector<ModelStateOffloadScheduler::Group> groups = {{0, 0}, {1, 1}, {2, 1}, {3, 1}};
  ModelStateOffloadScheduler schedule(groups, rows);
  schedule.begin_updating(1, false);
  std::string backward;
  for (int step = 0; step < 3; ++step) {
    schedule.begin_step();
    schedule.begin_forward();
    for (const int unit : {3, 1, 2}) schedule.units().read({unit});
    schedule.begin_backward();
    rows.take();
    for (const int unit : {2, 1}) {
      schedule.units().read_by_node({unit});
      schedule.gradient_made(unit);
    }
    schedule.gradient_made(3);
    schedule.end_backward();
    backward = rows.take();
    const bool learned = step > 0;
    CAPTURE(backward);
    CHECK(backward.ends_with(std::string(learned ? "load m1; load m3; " : "load m1; ") +
                             "load p1; load m1; update 1; store p1; store m1; "
                             "load p3; load m3; update 3; store p3; store m3; "));
  }
  CHECK(schedule.learned().ends == std::vector<int>{-1, -1, -1, 1});
  ModelStateOffloadScheduler next(groups, rows, schedule.learned());
  CHECK(next.learned().ends == schedule.learned().ends);
}

TEST_CASE("gradients of all but the last micro-batch go to host memory") {
  Steps steps(2, false);
  steps.begin();
  steps.forward();
  CHECK(steps.backward() == "load p1; take 2; store g2; take 1; store g1; ");
  steps.forward();
  CHECK(steps.backward() ==
        "load g2; load m2; load p1; load g2; take 2; load p2; load g2; load m2; update 2; store p2; store m2; "
        "load g1; load m1; load g1; take 1; load p1; load g1; load m1; update 1; store p1; store m1; update 0; ");
}

TEST_CASE("clipped gradients go to host memory and the next forward updates") {
  Steps steps(1, true);
  steps.begin();
  CHECK(steps.forward() ==
        "load p1; load g1; load m1; load p1; load g1; load m1; update 1; store p1; store m1; "
        "load p2; load g2; load m2; load p2; load g2; load m2; update 2; store p2; store m2; ");
  CHECK(steps.backward() == "load p1; take 2; norm 2; store g2; take 1; norm 1; store g1; norm 0; clip; update 0; ");
  CHECK(steps.finish() ==
        "load p1; load g1; load m1; update 1; store p1; store m1; "
        "load p2; load g2; load m2; update 2; store p2; store m2; ");
  CHECK(steps.finish() == "");
}

}  // namespace
}  // namespace memtune::state_schedule_test
