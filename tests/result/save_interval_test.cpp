// Users save at this interval for weeks. So the formula is checked by hand and against simulated jobs that fail at
// random.
#include "core/answer/result/save_interval.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace memtune::save_interval_test {

using namespace memtune::result;

namespace {

StateSaveModeMeasurement mode(const std::string& name, double blocked_ms, double durable_ms) {
  StateSaveModeMeasurement save;
  save.mode = name;
  save.blocked_ms = blocked_ms;
  save.durable_ms = durable_ms;
  return save;
}

// Simulates a job that trains for `work_s`; returns its extra time as a share of `work_s`. A save blocks, then is
// written in the background. A failure, exponential in time, restarts from the last save that is on the disk.
struct Job {
  double blocked_s, on_its_way_s, slowdown, restart_s, mtbf_s;

  double overhead(double interval_s, double work_s, uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> failure(1 / mtbf_s);
    double now = 0, done = 0, saved = 0, fails_at = failure(random);
    double coming = 0, coming_at = -1;  // the work in the state being written, and when it will be on the disk
    const auto pass = [&](double time, double work) {
      if (coming_at >= 0 && coming_at <= std::min(now + time, fails_at)) saved = coming, coming_at = -1;
      if (now + time < fails_at) return now += time, done += work, true;
      now = fails_at + restart_s;
      done = saved;
      coming_at = -1;
      fails_at = now + failure(random);
      return false;
    };
    while (done < work_s) {
      const double slow_s = std::min(on_its_way_s, coming_at >= 0 ? coming_at - now : 0);
      if (slow_s > 0 && !pass(slow_s, slow_s / slowdown)) continue;
      if (!pass(interval_s - slow_s / slowdown, interval_s - slow_s / slowdown)) continue;
      const double state = done;
      if (!pass(blocked_s, 0)) continue;
      coming = state;
      coming_at = now + on_its_way_s;
      if (on_its_way_s == 0) saved = coming, coming_at = -1;
    }
    return now / work_s - 1;
  }
};

struct Best {
  double interval_s = 0, overhead = 1e9;
};

Best best_of(const Job& job, double around_s, double work_s) {
  Best best;
  for (double factor = 0.5; factor < 2; factor *= 1.05) {
    const double overhead = job.overhead(around_s * factor, work_s, 7);
    if (overhead < best.overhead) best = {around_s * factor, overhead};
  }
  return best;
}

// The exact expected overhead of one interval with a blocking save. Failures also hit saves and restarts.
double exact_overhead(double interval_s, double cost_s, double mtbf_s) {
  return mtbf_s * std::expm1((interval_s + cost_s) / mtbf_s) / interval_s - 1;
}

}  // namespace

TEST_CASE("a save costs the blocked time and the slowdown of steps while it is written") {
  StateSaveModeMeasurement save = mode("async", 100, 2100);
  CHECK(cost_ms(save) == 100);
  save.slowdown = 1.25;  // 2000 ms hold 1600 ms of work
  CHECK(cost_ms(save) == doctest::Approx(500));
  save.slowdown = 0.98;  // noise is not a gain
  CHECK(cost_ms(save) == 100);
  save.slowdown.reset();
  save.slowed_ms = 40;
  CHECK(cost_ms(save) == 140);
}

TEST_CASE("Daly's interval matches a computation by hand") {
  // C = 2, M = 100: sqrt(400) * (1 + 0.1/3 + 0.01/9) - 2
  CHECK(daly_interval_s(2, 100) == doctest::Approx(20 * (1 + 0.1 / 3 + 0.01 / 9) - 2));
  CHECK(daly_interval_s(2, 100) == doctest::Approx(18.6889).epsilon(1e-5));
  CHECK(daly_interval_s(250, 100) == 100);  // a longer save makes no progress at any interval
}

TEST_CASE("the interval is in whole steps with its share of time") {
  StateSaveModeMeasurement save = mode("sync", 2000, 2000);
  save.load_ms = 3000;
  const SaveIntervalAdvice advice = advise(save, 500, 100);
  CHECK(advice.every_steps == 37);  // 18.69 s at 0.5 s a step
  CHECK(advice.interval_s == 18.5);
  CHECK(advice.overhead == doctest::Approx(2 / 18.5 + (9.25 + 3) / 100));
  CHECK(advice.mode == "sync");
  CHECK(advice.mtbf_s == 100);
}

TEST_CASE("a failure loses the save being written and a save starts only after the previous one is durable") {
  const StateSaveModeMeasurement save = mode("async", 10, 60'010);
  const SaveIntervalAdvice advice = advise(save, 1000, 1000);  // Daly's interval would be 4.5 s
  CHECK(advice.every_steps == 61);
  CHECK(advice.overhead == doctest::Approx(0.01 / 61 + (30.5 + 60) / 1000));
}

TEST_CASE("a step longer than the interval saves after every step") {
  CHECK(advise(mode("sync", 1, 1), 60'000, 3600).every_steps == 1);
}

TEST_CASE("tiny or zero step times give finite numbers") {
  CHECK(advise(mode("sync", 1, 1), 1e-300, 3600).every_steps == 1'000'000'000'000'000);
  CHECK_FALSE(advise(std::vector{mode("sync", 1, 1)}, 0, 3600));
  CHECK(advise(mode("sync", 0, 0), 0, 3600).every_steps == 1);
  CHECK(advise(mode("sync", 0, 0), 0, 3600).overhead < 1e-9);
}

TEST_CASE("the mode with the least overhead wins and the first of equals and never a failed one") {
  std::vector<StateSaveModeMeasurement> saves = {mode("a", 2000, 2000), mode("b", 100, 2100), mode("c", 100, 2100)};
  CHECK(advise(saves, 500, 3600)->mode == "b");
  saves[1].outcome = TrialOutcome::disk_full;
  CHECK(advise(saves, 500, 3600)->mode == "c");
  saves[2].slowdown = 2;  // it costs 1.1 s then, and a failure also loses the save being written
  CHECK(advise(saves, 500, 3600)->mode == "c");
  saves[2].slowdown = 1000;
  CHECK(advise(saves, 500, 3600)->mode == "a");
  saves[0].outcome = saves[2].outcome = TrialOutcome::error;
  CHECK_FALSE(advise(saves, 500, 3600));
  CHECK_FALSE(advise(std::vector<StateSaveModeMeasurement>(), 500, 3600));
}

TEST_CASE("the interval minimizes the exact expected time") {
  for (const double cost_s : {0.05, 1.0, 30.0})
    for (const double mtbf_s : {600.0, 3600.0, 86400.0}) {
      CAPTURE(cost_s);
      CAPTURE(mtbf_s);
      const double interval_s = daly_interval_s(cost_s, mtbf_s);
      double best_s = interval_s / 3;
      for (double other_s = best_s; other_s < interval_s * 3; other_s *= 1.001)
        if (exact_overhead(other_s, cost_s, mtbf_s) < exact_overhead(best_s, cost_s, mtbf_s)) best_s = other_s;
      CHECK(interval_s == doctest::Approx(best_s).epsilon(0.01));
    }
}

TEST_CASE("simulated random failures confirm the best interval and mode and the predicted time") {
  constexpr double kWork = 4e7, kMtbf = 3600;  // about 11 000 failures
  struct Case {
    StateSaveModeMeasurement save;
    double slowdown;
  };
  for (const Case& each : {Case{mode("sync", 4000, 4000), 1}, Case{mode("async", 400, 6400), 1.1}}) {
    CAPTURE(each.save.mode);
    StateSaveModeMeasurement save = each.save;
    save.slowdown = each.slowdown;
    save.load_ms = 20'000;
    const SaveIntervalAdvice advice = advise(save, 100, kMtbf);
    const Job job{save.blocked_ms / 1e3, (save.durable_ms - save.blocked_ms) / 1e3, each.slowdown, 20, kMtbf};
    const Best best = best_of(job, advice.interval_s, kWork);
    const double simulated = job.overhead(advice.interval_s, kWork, 7);
    CHECK(simulated <= best.overhead * 1.02);
    CHECK(advice.interval_s == doctest::Approx(best.interval_s).epsilon(0.15));
    CHECK(advice.overhead == doctest::Approx(simulated).epsilon(0.05));
  }
}

}  // namespace memtune::save_interval_test
