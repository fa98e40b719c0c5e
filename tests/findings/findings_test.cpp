// Tests each rule on a trace with figures that can be added up by hand. A rule reports the right amount and place, and
// nothing just below its bounds.
#include "core/answer/findings/findings.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/plan/strategy/strategy.h"
#include "tests/findings/made_up.h"

namespace memtune::findings_test {

using namespace memtune::findings;
using memtune::plan::Plan;
using memtune::result::TrialMeasurement;
using memtune::trace::EventKind;
using memtune::trace::MemoryOwnerKind;
using memtune::trace::Pass;
using memtune::trace::TraceRegionKey;
using memtune::trace::TraceRegionLevel;
using memtune::trace::ValueId;

namespace {

constexpr int64_t kMs = MadeUp::kMs, kMiB = MadeUp::kMiB, kGiB = 1024 * kMiB;

TrialMeasurement measured(double step_ms) {
  TrialMeasurement measurement;
  measurement.strategy = "offload:stream";
  measurement.step_ms.median = step_ms;
  measurement.peak_bytes.allocated = 10 * kGiB;
  measurement.transfer.in_bytes = kGiB;
  return measurement;
}

const Plan& plan() {
  static const Plan plan = [] {
    Plan made;
    made.strategy = "offload:stream";
    return made;
  }();
  return plan;
}

// Checks that the advised alternative is always a strategy in its canonical form.
std::vector<Finding> find_in(const MadeUp& made, const TrialMeasurement& measurement) {
  std::vector<Finding> findings = find(made.trace, measurement, &plan());
  for (const Finding& finding : findings) {
    CHECK(memtune::plan::canonical_name(finding.alternative_strategy) == finding.alternative_strategy);
    CHECK((finding.advice.find(" -> ") != std::string::npos) == !finding.alternative_strategy.empty());
  }
  return findings;
}

const Finding* of_rule(const std::vector<Finding>& findings, const std::string& rule) {
  const auto found = std::ranges::find(findings, rule, &Finding::rule);
  return found == findings.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("an empty trace and a trace of one event have no findings") {
  CHECK(find({}, measured(100), nullptr).empty());
  MadeUp made;
  made.kernel(0, 1);
  CHECK(find_in(made, measured(1)).empty());
}

TEST_CASE("a step that computes from end to end has no findings") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  made.add(EventKind::copy_in, 10, 30, "", 900 * kMiB);
  CHECK(find_in(made, measured(100)).empty());
}

TEST_CASE("late copies in count the time per step that no kernel covers") {
  MadeUp made;
  for (const double late : {10.0, 14.0}) {  // two steps: kernels 0-50 and from 50 + late, when the copy ends
    const double start = late == 10 ? 0 : 100;
    made.step(start, start + 100);
    made.kernel(start, start + 50);
    made.add(EventKind::copy_in, start + 5, start + 15, "", 500 * kMiB);
    made.add(EventKind::copy_in, start + 40, start + 50 + late, "", 1000 * kMiB);
    made.kernel(start + 50 + late, start + 100);
  }
  const auto findings = find_in(made, measured(100));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].rule == "copies-in-late");
  CHECK(findings[0].ms_per_step == doctest::Approx(12));
  CHECK(findings[0].severity == Severity::problem);
  CHECK(sentence(findings[0]) ==
        "copies in exposed 12 ms a step: prefetch=1GiB -> prefetch=2GiB (offload:stream,prefetch=2GiB)");
  CHECK(findings[0].evidence.start_ns == 150 * kMs);
  CHECK(findings[0].evidence.end_ns == 164 * kMs);
  CHECK(findings[0].evidence.events == std::vector<uint32_t>{8, 3});
  CHECK(findings[0].evidence.strategy == "offload:stream");
}

TEST_CASE("a saturated PCIe link gets the advice to offload less and not to prefetch earlier") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 60);
  made.add(EventKind::copy_in, 20, 100, "", kGiB);  // 80 ms, half of it late
  const Finding late = find_in(made, measured(100)).front();
  CHECK(late.ms_per_step == doctest::Approx(40));
  CHECK(late.advice == "PCIe bandwidth is the limit; fraction=1 -> fraction=0.5");
}

TEST_CASE("a single late copy does not count as a saturated PCIe link") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 70);
  made.add(EventKind::copy_in, 60, 80, "", kGiB);
  made.kernel(80, 100);
  CHECK(find_in(made, measured(100)).front().advice == "prefetch=1GiB -> prefetch=2GiB");
}

TEST_CASE("late copies for the last block give the advice to keep it") {
  MadeUp made;
  made.value("layers.0", 0, "host", kGiB);
  const ValueId last = made.value("layers.1", 1, "host", kGiB);
  made.step(0, 100);
  made.kernel(0, 40);
  made.add(EventKind::copy_in, 40, 50, "", kGiB, last);
  made.kernel(50, 100);
  made.add(EventKind::copy_in, 80, 90, "", kGiB, ValueId(0));
  const Finding late = find_in(made, measured(100)).front();
  CHECK(sentence(late) ==
        "copies in exposed 10 ms a step, most of it for layers.1: keep_last=0 -> keep_last=1 "
        "(offload:stream,keep_last=1)");
  CHECK(late.evidence.value == last);
}

TEST_CASE("late copies out give the advice of a larger stash") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 20);
  made.add(EventKind::copy_out, 5, 10, "", kGiB);
  made.add(EventKind::copy_out, 18, 24, "", kGiB);
  made.kernel(24, 100);
  const auto findings = find_in(made, measured(100));
  REQUIRE(findings.size() == 1);
  CHECK(sentence(findings[0]) ==
        "copies out exposed 4.0 ms a step: stash=8GiB -> stash=16GiB (offload:stream,stash=16GiB)");
  CHECK(findings[0].severity == Severity::advice);
}

TEST_CASE("time under copies in both directions is reported once as copies in") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 50);
  made.add(EventKind::copy_out, 50, 60, "", kGiB);
  made.add(EventKind::copy_in, 50, 60, "", kGiB);
  made.kernel(60, 100);
  const auto findings = find_in(made, measured(100));
  CHECK(of_rule(findings, "copies-in-late"));
  CHECK_FALSE(of_rule(findings, "copies-out-late"));
}

TEST_CASE("copies under one percent of the step and the model's own copies are not reported") {
  const auto with_gap = [](double gap_ms, int64_t bytes) {
    MadeUp made;
    made.step(0, 100);
    made.kernel(0, 50);
    made.add(EventKind::copy_in, 50, 50 + gap_ms, "", bytes);
    made.kernel(50 + gap_ms, 100);
    return find_in(made, measured(100));
  };
  CHECK(with_gap(0.9, kGiB).empty());
  CHECK(with_gap(1.1, kGiB).size() == 1);
  CHECK(with_gap(1.1, kMiB - 1).empty());
}

TEST_CASE("waits count only while nothing is copied and disk reads are named") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 40);
  made.add(EventKind::wait, 40, 60);
  made.add(EventKind::copy_in, 55, 60, "", kGiB);
  made.kernel(60, 100);
  const Finding* waits = nullptr;
  auto findings = find_in(made, measured(100));
  REQUIRE((waits = of_rule(findings, "waits")));
  CHECK(waits->ms_per_step == doctest::Approx(15));
  CHECK(waits->what == "compute waits 15 ms a step while nothing is copied");
  CHECK(waits->advice == "prefetch=1GiB -> prefetch=2GiB");
  made.add(EventKind::disk_read, 35, 55, "", kGiB);
  findings = find_in(made, measured(100));
  REQUIRE((waits = of_rule(findings, "waits")));
  CHECK(waits->what == "compute waits 15 ms a step while nothing is copied, for disk reads");
}

TEST_CASE("small copies far below the PCIe bandwidth give the advice of a larger min") {
  MadeUp made;
  TrialMeasurement measurement = measured(100);
  measurement.transfer.link_out_gb_per_s = measurement.transfer.link_in_gb_per_s = 50;
  made.step(0, 100);
  made.kernel(0, 100);
  // 1 MB in 0.1 ms is 10 GB/s; at 50 GB/s it would take 0.02 ms. 20 such copies lose 1.6 ms.
  for (int i = 0; i < 20; ++i) made.add(EventKind::copy_out, i, i + 0.1, "", 1'000'000);
  const auto findings = find_in(made, measurement);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].rule == "copies-small");
  CHECK(findings[0].ms_per_step == doctest::Approx(1.6));
  CHECK(sentence(findings[0]) ==
        "20 small copies a step run at 10.0 GB/s: min=1MiB -> min=4MiB (offload:stream,min=4MiB)");
  measurement.transfer.link_out_gb_per_s = 16;  // 10 GB/s is over 60 % of this bandwidth
  CHECK(find_in(made, measurement).empty());
}

TEST_CASE("a copy direction below four fifths of the idle bandwidth is reported") {
  MadeUp made;
  TrialMeasurement measurement = measured(100);
  measurement.transfer.link_out_gb_per_s = 50;
  made.step(0, 100);
  made.kernel(0, 100);
  made.add(EventKind::copy_out, 0, 10, "", 300'000'000);  // 30 GB/s: 4 ms more than at 50 GB/s
  const auto findings = find_in(made, measurement);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].rule == "copies-out-slow");
  CHECK(findings[0].ms_per_step == doctest::Approx(4));
  CHECK(findings[0].what == "copies out run at 30.0 GB/s, idle PCIe reaches 50.0 GB/s");
  measurement.transfer.link_out_gb_per_s = 37;
  CHECK(find_in(made, measurement).empty());
}

TEST_CASE("pageable copies are reported from one MiB a step") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  made.trace.events[made.add(EventKind::copy_in, 10, 12, "", 512 << 10)].pageable = true;
  CHECK(find_in(made, measured(100)).empty());
  made.trace.events[made.add(EventKind::copy_in, 20, 22, "", 512 << 10)].pageable = true;
  const auto findings = find_in(made, measured(100));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "1 MiB a step are copied through pageable memory");
}

TEST_CASE("a trial that offloads nothing has no late copies whatever the model copies itself") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 50);
  made.add(EventKind::copy_in, 50, 60, "", kGiB);
  made.add(EventKind::copy_out, 60, 65, "", kGiB);
  made.add(EventKind::wait, 65, 80);
  made.kernel(80, 100);
  TrialMeasurement measurement = measured(100);
  const auto moving = find_in(made, measurement);
  CHECK(of_rule(moving, "copies-in-late"));
  CHECK(of_rule(moving, "copies-out-late"));
  CHECK(of_rule(moving, "waits"));
  measurement.strategy = "none";
  measurement.transfer = {};
  const auto still = find(made.trace, measurement, nullptr);
  for (const char* rule : {"copies-in-late", "copies-out-late", "waits", "copies-small"})
    CHECK_FALSE(of_rule(still, rule));
  for (const Finding& finding : still) CHECK(finding.advice.find("prefetch") == std::string::npos);
}

TEST_CASE("small copies of a trial that offloads nothing belong to the model") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  for (int i = 0; i < 20; ++i) made.add(EventKind::copy_in, i, i + 0.9, "", kMiB);
  TrialMeasurement measurement = measured(100);
  measurement.transfer.link_in_gb_per_s = 50;
  CHECK(of_rule(find_in(made, measurement), "copies-small"));
  measurement.transfer.in_bytes = 0;
  CHECK_FALSE(of_rule(find_in(made, measurement), "copies-small"));
}

TEST_CASE("a trial without effect has no findings but one that recomputed has") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  TrialMeasurement measurement = measured(100);
  measurement.transfer = {};
  measurement.step_ms.samples = {90, 100, 110};
  measurement.noisy = true;
  measurement.recomputed_bytes = 0;
  CHECK(find_in(made, measurement).empty());
  measurement.recomputed_bytes = 1;
  CHECK(of_rule(find_in(made, measurement), "steps-vary"));
}

TEST_CASE("another optimizer is advised if its states hold the peak and not if parameters do") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  made.trace.memory = {{10 * kMs, 10 * kGiB}};
  made.trace.owners = {{MemoryOwnerKind::parameters, "parameters"}, {MemoryOwnerKind::optimizer, "optimizer"}};
  made.trace.owned = {{0, 0, 8 * kGiB}, {0, 1, kGiB}};
  CHECK(find_in(made, measured(100))[0].advice == "states=host keeps that in CPU memory; a smaller --dtype shrinks it");
  made.trace.owned = {{0, 0, kGiB}, {0, 1, 8 * kGiB}};
  CHECK(find_in(made, measured(100))[0].advice ==
        "states=host or --optimizer paged_adamw_8bit keeps that in CPU memory, --optimizer adamw_8bit shrinks it");
}

TEST_CASE("the peak finding names the largest owner and the place and the advice") {
  MadeUp made;
  made.value("layers.3", 3, "keep", kGiB);
  made.step(0, 100);
  made.kernel(0, 100);
  made.region(50, 60, TraceRegionKey::of_block(3, Pass::backward), "layers.3 backward");
  made.trace.memory = {{10 * kMs, 4 * kGiB}, {55 * kMs, 10 * kGiB}, {90 * kMs, 5 * kGiB}};
  made.trace.owners = {{MemoryOwnerKind::parameters, "parameters"}, {MemoryOwnerKind::block, "layers.3", 3}};
  made.trace.owned = {{0, 0, 3 * kGiB}, {50 * kMs, 1, 6 * kGiB}, {80 * kMs, 1, 0}};
  auto findings = find_in(made, measured(100));
  REQUIRE(findings.size() == 1);
  CHECK(sentence(findings[0]) ==
        "the peak of 10 GiB is in layers.3 backward; layers.3 holds 60 % of it: recompute or offload more of this "
        "block's activations");
  CHECK(findings[0].severity == Severity::note);
  CHECK(findings[0].bytes == 6 * kGiB);
  CHECK(findings[0].evidence.start_ns == 55 * kMs);
  CHECK(findings[0].weight == doctest::Approx(0.6));
  CHECK(find_in(made, {})[0].weight == doctest::Approx(0.6));  // a trace alone has its own peak
  made.trace.owned = {{0, 0, 1 * kGiB}};
  findings = find_in(made, measured(100));
  CHECK(findings[0].what == "the peak of 10 GiB is in layers.3 backward; the work space of ops holds 90 % of it");
}

TEST_CASE("a fused loss is advised if the head's work space holds the peak and the loss is plain") {
  const auto advice = [](const char* loss, TraceRegionLevel where) {
    MadeUp made;
    made.step(0, 100);
    made.kernel(0, 100);
    made.add(EventKind::op, 40, 50, loss);
    made.region(50, 60, {where, Pass::backward}, "head backward");
    made.trace.memory = {{55 * kMs, 10 * kGiB}};
    made.trace.owners = {{MemoryOwnerKind::parameters, "parameters"}};
    made.trace.owned = {{0, 0, kGiB}};
    return find_in(made, measured(100)).at(0).advice;
  };
  CHECK(advice("aten::cross_entropy_loss", TraceRegionLevel::head) ==
        "with the loss causal_lm or next_token, --loss-impl fused (or chunked=N) never holds the whole logits");
  CHECK(advice("memtune::linear_cross_entropy", TraceRegionLevel::head) == "");
  CHECK(advice("aten::cross_entropy_loss", TraceRegionLevel::before_blocks) == "");
}

TEST_CASE("an unused budget is reported only if something was recomputed or offloaded") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  made.trace.budget_bytes = 16 * kGiB;
  TrialMeasurement measurement = measured(100);
  CHECK(find_in(made, measurement).empty());
  measurement.recomputed_ops = 3;
  const auto findings = find_in(made, measurement);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "6 GiB of the budget of 16 GiB are never used");
  CHECK(findings[0].bytes == 6 * kGiB);
  measurement.transfer.out_bytes = 24 * kGiB;
  CHECK(find_in(made, measurement)[0].advice == "fraction=1 -> fraction=0.75");
  made.trace.budget_bytes = 11 * kGiB;  // a tenth would be 1.1 GiB
  CHECK(find_in(made, measurement).empty());
}

TEST_CASE("stalls of CPU memory and disk are reported with the setting that avoids them") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  const uint32_t read = made.add(EventKind::disk_read, 20, 40, "", kGiB);
  TrialMeasurement measurement = measured(100);
  measurement.stalls.room_ms = 12;
  measurement.stalls.disk_ms = 3;
  const auto findings = find_in(made, measurement);
  REQUIRE(findings.size() == 2);
  CHECK(sentence(findings[0]) ==
        "host memory is full: 12 ms a step waiting for writes to disk: a larger --host-budget, or a faster --scratch");
  CHECK(findings[1].what == "disk reads are late by 3.0 ms a step");
  CHECK(findings[1].evidence.events == std::vector<uint32_t>{read});
}

TEST_CASE("recompute is reported if PCIe would copy the same bytes out and back in less time") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 100);
  made.region(70, 90, TraceRegionKey::of_block(0, Pass::recompute), "layers.0 recompute");
  made.value("layers.0", 0, "recompute", 500'000'000);
  made.value("layers.0", 0, "host", 500'000'000);
  TrialMeasurement measurement = measured(100);
  measurement.transfer.link_out_gb_per_s = measurement.transfer.link_in_gb_per_s = 100;  // 5 ms in each direction
  measurement.recompute_ms = 9;
  CHECK(find_in(made, measurement).empty());
  measurement.recompute_ms = 30;
  const auto findings = find_in(made, measurement);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].ms_per_step == doctest::Approx(20));
  CHECK(findings[0].what == "recompute takes 30 ms a step for 476.8 MiB that offloading copies in 10 ms");
  CHECK(findings[0].evidence.start_ns == 70 * kMs);
}

TEST_CASE("gaps between kernels are idle time but not before the first or after the last kernel") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(10, 40);
  made.kernel(42, 50);
  made.kernel(51, 80);
  const auto findings = find_in(made, measured(100));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "the device is idle for 3.0 ms a step, in 2 gaps");
  CHECK(findings[0].evidence.start_ns == 40 * kMs);
  CHECK(findings[0].evidence.end_ns == 42 * kMs);
}

TEST_CASE("idle time is attributed to the optimizer if most of it is there") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 40);
  made.kernel(43, 50);
  made.kernel(90, 100);
  made.region(50, 52.9, TraceRegionKey::phase(Pass::optimizer), "optimizer", memtune::trace::TrackRole::steps);
  CHECK(find_in(made, measured(100))[0].rule == "host-bound");  // 40 of the 43 ms are before it
  made.region(60, 90, TraceRegionKey::phase(Pass::optimizer), "optimizer", memtune::trace::TrackRole::steps);
  const auto findings = find_in(made, measured(100));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].what == "the device is idle for 43 ms a step, in 2 gaps, most of it in the optimizer");
  CHECK(findings[0].advice.find("--shard-offload only") != std::string::npos);
}

TEST_CASE("a device that waits for the host for a tenth of the measured step is host-bound") {
  MadeUp made;
  made.step(0, 200);
  for (int i = 0; i < 10; ++i) made.kernel(20 * i, 20 * i + 6);  // 60 ms of work, 126 ms of gaps in a traced step
  const auto found = find_in(made, measured(100));
  REQUIRE(found.size() == 1);  // not device-idle too
  CHECK(found[0].rule == "host-bound");
  CHECK(found[0].ms_per_step == doctest::Approx(40));  // of the measured step, which no profiler slows down
  CHECK(found[0].weight == doctest::Approx(0.4));
  CHECK(found[0].what.find("the device waits for the host for 40 ms a step, 40 % of it") == 0);
  CHECK(found[0].advice.find("CUDA graphs") != std::string::npos);
  CHECK(found[0].evidence.start_ns == 6 * kMs);
  // Gaps of the traced step are no wait where the measured step is hardly longer than the device's work.
  CHECK(find_in(made, measured(66))[0].rule == "device-idle");
  CHECK(find_in(made, measured(67))[0].rule == "host-bound");
  // Before the first kernel and after the last, nothing is a wait.
  CHECK(find_in(made, measured(1000))[0].ms_per_step == doctest::Approx(126));
  TrialMeasurement noisy = measured(100);
  noisy.step_ms.samples = {90, 100, 112};  // twice the spread is 44 %
  CHECK(find_in(made, noisy)[0].rule == "device-idle");
  noisy.step_ms.samples = {90, 100, 109};
  CHECK(find_in(made, noisy)[0].rule == "host-bound");
}

TEST_CASE("the blocks' share of a step is a note") {
  MadeUp made;
  made.step(0, 100);
  const auto block = [](int number, Pass pass) { return trace::TraceRegionKey::of_block(number, pass); };
  made.region(0, 1, {trace::TraceRegionLevel::before_blocks}, "before the blocks");
  made.region(1, 11, block(0, Pass::forward), "h.0");
  made.region(11, 21, block(1, Pass::forward), "h.1");
  made.region(21, 30, {trace::TraceRegionLevel::head}, "head");
  made.region(30, 35, block(1, Pass::recompute), "h.1 recompute");
  made.region(35, 60, block(1, Pass::backward), "h.1 backward");
  made.region(60, 85, block(0, Pass::backward), "h.0 backward");
  const std::vector<Finding> found = find(made.trace, {}, nullptr);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::note);
  CHECK(found[0].what ==
        "2 blocks take 75 % of a step, 35.0 to 40.0 % each (most: h.1); before them 1.0 %, the head 9.0 %");
  MadeUp one;
  one.step(0, 100);
  one.region(1, 11, block(0, Pass::forward), "h.0");
  CHECK(find(one.trace, {}, nullptr).empty());
}

TEST_CASE("exposed collectives are reported from one percent of the step") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 60);
  made.kernel(62, 100);
  made.add(EventKind::collective, 40, 60.9);
  CHECK(find_in(made, measured(100)).empty());
  const uint32_t late = made.add(EventKind::collective, 60.9, 62);
  const auto findings = find_in(made, measured(100));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].rule == "collectives-exposed");
  CHECK(findings[0].ms_per_step == doctest::Approx(2));
  CHECK(findings[0].evidence.events.front() == late);
}

TEST_CASE("findings about unreliable figures come last and the worst of them first") {
  MadeUp made;
  made.step(0, 100);
  made.kernel(0, 96);
  made.add(EventKind::copy_in, 96, 99, "", kGiB);
  made.trace.lost_records = 7;
  TrialMeasurement measurement = measured(100);
  measurement.step_ms.samples = {90, 100, 110};
  measurement.noisy = true;
  measurement.profiler_overhead = 0.34;
  const auto findings = find_in(made, measurement);
  REQUIRE(findings.size() == 4);
  CHECK(findings[0].rule == "copies-in-late");
  CHECK(findings[1].rule == "records-lost");  // 7 of 10
  CHECK(findings[2].what == "traced steps took 34 % longer than measured ones");
  CHECK(findings[3].what == "steps vary by 20 %");
  measurement.profiler_overhead = 0.09;
  CHECK_FALSE(of_rule(find_in(made, measurement), "profiler-slows"));
}

TEST_CASE("an alternative that was tried and failed is reported and not advised") {
  const auto row = [](const char* strategy, memtune::result::TrialOutcome outcome) {
    memtune::result::TrialResultRow made;
    made.measurement.strategy = strategy;
    made.measurement.outcome = outcome;
    return made;
  };
  using memtune::result::TrialOutcome;
  std::vector<memtune::result::TrialResultRow> rows = {row("checkpoint:full", TrialOutcome::ok),
                                                       row("checkpoint:every=2", TrialOutcome::device_oom)};
  Finding finding;
  finding.advice = "checkpoint:full -> checkpoint:every=2";
  finding.alternative_strategy = "checkpoint:every=2";
  std::vector<Finding> findings = {finding};
  rows[1].batch = 4;  // another batch does not count
  mark_failed_alternatives(rows, rows[0], findings);
  CHECK(findings[0].alternative_strategy == "checkpoint:every=2");
  rows[1].batch = {};
  rows[1].measurement.outcome = TrialOutcome::ok;
  mark_failed_alternatives(rows, rows[0], findings);
  CHECK(findings[0].advice == finding.advice);
  rows[1].measurement.outcome = TrialOutcome::device_oom;
  mark_failed_alternatives(rows, rows[0], findings);
  CHECK(sentence(findings[0]) == ": checkpoint:every=2 was tried and ended in device_oom");
  CHECK(findings[0].alternative_strategy.empty());
}

namespace {

memtune::result::TrialResultRow variant(const char* name, double step_ms, int64_t peak, double exposed_ms) {
  memtune::result::TrialResultRow made;
  TrialMeasurement& measurement = made.measurement;
  measurement.strategy = name;
  measurement.step_ms.median = step_ms;
  measurement.step_ms.low = step_ms - 1;
  measurement.step_ms.high = step_ms + 1;
  measurement.peak_bytes.allocated = peak;
  measurement.transfer.out_bytes = exposed_ms > 0 ? kGiB : 0;
  measurement.transfer.exposed_ms = exposed_ms;
  measurement.transfer.hidden = 0.25;
  return made;
}

}  // namespace

TEST_CASE("a trainer variant that waits for copies is reported with a faster one of no more memory") {
  using memtune::result::TrialOutcome;
  std::vector<memtune::result::TrialResultRow> rows = {
      variant("own", 100, 20 * kGiB, 0), variant("inputs-on-host", 180, 8 * kGiB, 17),
      variant("selective", 171, 8 * kGiB, 0), variant("full", 175, 8 * kGiB, 0)};
  std::vector<Finding> findings = variant_findings(rows);
  REQUIRE(findings.size() == 1);
  CHECK(sentence(findings[0]) ==
        "inputs-on-host: copies are exposed for 17 ms a step, 25 % of their time overlaps compute: selective takes no "
        "more memory, and 9.0 ms less");
  CHECK(findings[0].severity == Severity::problem);
  CHECK(findings[0].rule == "copies-exposed");

  rows[2].measurement.losses.changed = true;  // it trains differently
  CHECK(variant_findings(rows)[0].advice == "full takes no more memory, and 5.0 ms less");
  rows[3].measurement.step_ms.low = 178;  // not faster beyond noise
  rows[3].measurement.step_ms.high = 182;
  CHECK(variant_findings(rows)[0].advice.empty());
  rows[1].measurement.transfer.exposed_ms = 1.7;  // below one percent
  CHECK(variant_findings(rows).empty());
  rows[1].measurement.transfer.exposed_ms = 17;
  rows[1].measurement.outcome = TrialOutcome::device_oom;
  CHECK(variant_findings(rows).empty());
}

TEST_CASE("variants with the time and memory of the own command are reported if peaks are reproducible") {
  std::vector<memtune::result::TrialResultRow> rows = {
      variant("own", 160, 8 * kGiB, 0), variant("selective", 160.5, 8 * kGiB, 0), variant("full", 160.5, 7 * kGiB, 0),
      variant("off", 128, 8 * kGiB, 0)};
  rows[0].base = true;
  for (memtune::result::TrialResultRow& row : rows) row.command = {"python", "train.py"};
  const std::vector<Finding> findings = variant_findings(rows);
  REQUIRE(findings.size() == 1);
  CHECK(sentence(findings[0]) == "selective takes the same time and memory as own");
  CHECK(findings[0].severity == Severity::note);
  for (memtune::result::TrialResultRow& row : rows) row.measurement.device = "CPU (4 cores)";
  CHECK(variant_findings(rows).empty());
}

TEST_CASE("two rounds are too few to report that a variant takes the time of the own command") {
  std::vector<memtune::result::TrialResultRow> rows = {variant("own", 160, 8 * kGiB, 0),
                                                       variant("slower", 176, 8 * kGiB, 0)};
  rows[0].base = true;
  for (memtune::result::TrialResultRow& row : rows) {
    row.command = {"python", "train.py"};
    for (const double times : {0.99, 1.01}) {
      memtune::result::TrialRoundTimesAndMachineLoad round;
      round.base = "own";
      round.base_ms = 160;
      round.step_ms = row.measurement.step_ms;
      round.step_ms.median *= &row == &rows[0] ? 1 : times;
      row.measurement.rounds.push_back(round);
    }
  }
  REQUIRE(memtune::result::WorkNormalizedTrialComparator(rows).equally_fast(rows[1], rows[0]));
  CHECK(variant_findings(rows).empty());
}

TEST_CASE("steps with fewer samples are not reported as faster") {
  std::vector<memtune::result::TrialResultRow> rows = {variant("offload, batch=8", 180, 8 * kGiB, 17),
                                                       variant("off, batch=4", 90, 6 * kGiB, 0)};
  for (memtune::result::TrialResultRow& row : rows) row.command = {"python", "train.py"};
  rows[0].measurement.samples_per_s = 8 / 0.180, rows[1].measurement.samples_per_s = 4 / 0.090;
  REQUIRE(variant_findings(rows).size() == 1);
  CHECK(variant_findings(rows)[0].advice.empty());
  rows[1].measurement.samples_per_s = 8 / 0.090;
  CHECK_FALSE(variant_findings(rows)[0].advice.empty());
}

}  // namespace memtune::findings_test
