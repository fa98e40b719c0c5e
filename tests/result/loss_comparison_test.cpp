#include "core/answer/result/loss_comparison.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/answer/result/recommend.h"
#include "core/answer/result/work_normalized_trial_comparator.h"

namespace memtune::loss_comparison_test {

using namespace memtune::result;

namespace {

TrialMeasurement with_losses(const std::string& name, std::initializer_list<std::vector<double>> rounds) {
  TrialMeasurement m;
  m.strategy = name;
  m.step_ms = summarize({10});
  for (const std::vector<double>& loss : rounds) {
    TrialRoundTimesAndMachineLoad& round = m.rounds.emplace_back();
    round.step_ms = m.step_ms;
    round.loss = loss;
  }
  return m;
}

const TrialMeasurement kRepeats = with_losses("own", {{4, 3}, {4, 3}});

}  // namespace

TEST_CASE("a first loss beyond rounding counts as changed if the base repeats itself") {
  const LossComparison same = compare_losses(with_losses("b", {{4, 3}}), kRepeats);
  CHECK(same.compared);
  CHECK_FALSE(same.changed);
  CHECK(same.against == "own");
  CHECK_FALSE(compare_losses(with_losses("b", {{4 + 3.9e-5, 3}}), kRepeats).changed);
  const LossComparison changed = compare_losses(with_losses("b", {{4 + 4.1e-5, 3}}), kRepeats);
  CHECK(changed.changed);
  CHECK(changed.step == 1);
  CHECK(changed.expected == 4);
  CHECK(why_changed(changed) == "its loss of step 1 is 4.00004, that of own 4 (± 4e-05 would be noise)");
}

TEST_CASE("a variant in which more tensors have no gradient has changed") {
  TrialMeasurement base = kRepeats, less = with_losses("b", {{4, 3}});
  base.tensors_without_gradient = 2;
  CHECK_FALSE(compare_losses(less, base).changed);
  less.tensors_without_gradient = 3;
  const LossComparison changed = compare_losses(less, base);
  CHECK(changed.changed);
  CHECK(why_changed(changed) == "1 tensor that own trains has no gradient");
  less.losses = changed;
  CHECK_FALSE(is_eligible(less));
}

TEST_CASE("a lower precision on either side allows a larger difference of losses") {
  TrialMeasurement coarse = with_losses("b", {{4.015, 3}});
  CHECK(compare_losses(coarse, kRepeats).changed);
  coarse.dtype = "bfloat16";
  CHECK_FALSE(compare_losses(coarse, kRepeats).changed);
  TrialMeasurement base = kRepeats;
  base.dtype = "bfloat16";
  CHECK_FALSE(compare_losses(with_losses("b", {{4.015, 3}}), base).changed);
  CHECK(compare_losses(with_losses("b", {{4.017, 3}}), base).changed);
}

TEST_CASE("a base that does not repeat itself allows twice the difference of its rounds") {
  const TrialMeasurement base = with_losses("own", {{4.0, 3}, {4.1, 3}});
  CHECK_FALSE(compare_losses(with_losses("b", {{4.29, 3}}), base).changed);
  CHECK_FALSE(compare_losses(with_losses("b", {{3.81, 3}}), base).changed);
  CHECK(compare_losses(with_losses("b", {{4.31, 3}}), base).changed);
}

TEST_CASE("each later step allows one more rounding and the first unexplained step is reported") {
  CHECK_FALSE(compare_losses(with_losses("b", {{4, 3 + 5e-5}}), kRepeats).changed);
  CHECK(compare_losses(with_losses("b", {{4, 3 + 7e-5}}), kRepeats).step == 2);
  CHECK(compare_losses(with_losses("b", {{5, 5}}), kRepeats).step == 1);
}

TEST_CASE("the losses of every round count") {
  CHECK(compare_losses(with_losses("b", {{4, 3}, {4, 3.5}}), kRepeats).changed);
}

TEST_CASE("a NaN loss differs and steps without a counterpart are ignored") {
  CHECK(compare_losses(with_losses("b", {{4, std::nan("")}}), kRepeats).changed);
  CHECK_FALSE(compare_losses(with_losses("b", {{4}}), kRepeats).changed);
  CHECK_FALSE(compare_losses(with_losses("b", {{}}), kRepeats).compared);
  CHECK_FALSE(compare_losses(with_losses("b", {}), kRepeats).compared);
}

TEST_CASE("a trial that trains differently is not chosen and the reason says so") {
  TrialResultRow base, fast;
  base.measurement = with_losses("own", {{4, 3}});
  fast.measurement = with_losses("fast", {{5, 3}});
  base.base = true;
  base.measurement.peak_bytes.allocated = fast.measurement.peak_bytes.allocated = 100;
  fast.measurement.step_ms = summarize({1});
  fast.measurement.losses = compare_losses(fast.measurement, base.measurement);
  CHECK_FALSE(is_eligible(fast.measurement));
  const Recommendation advice = recommend(std::vector<TrialResultRow>{base, fast}, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "own");
  CHECK(advice.reason.starts_with("the only one that trains the same: "));
  CHECK(advice.reason.ends_with("; fast is faster, but trains differently"));
}

TEST_CASE("among equally fast variants with the same peak the base is chosen") {
  TrialResultRow base, other;
  base.measurement = with_losses("own", {{4, 3}});
  other.measurement = with_losses("other", {{4, 3}});
  base.base = true;
  base.measurement.peak_bytes.allocated = other.measurement.peak_bytes.allocated = 1000;
  CHECK(recommend(std::vector<TrialResultRow>{other, base}, 0, RecommendationGoal::throughput).strategy == "own");
  other.measurement.peak_bytes.allocated = 990;
  CHECK(recommend(std::vector<TrialResultRow>{other, base}, 0, RecommendationGoal::throughput).strategy == "own");
  other.measurement.peak_bytes.allocated = 900;
  CHECK(recommend(std::vector<TrialResultRow>{other, base}, 0, RecommendationGoal::throughput).strategy == "other");
}

TEST_CASE("losses of steps with different sample counts are not compared") {
  TrialMeasurement base = kRepeats, larger = with_losses("b", {{5, 4}});
  base.samples_per_s = 400;
  larger.samples_per_s = 404;
  CHECK(compare_losses(larger, base).changed);
  larger.samples_per_s = 800;
  CHECK(has_other_samples(larger, base));
  CHECK_FALSE(compare_losses(larger, base).compared);
  base.samples_per_s = 0;  // unknown
  CHECK(compare_losses(larger, base).changed);
}

}  // namespace memtune::loss_comparison_test
