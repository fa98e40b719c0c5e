// Blocks are what --blocks defines. No report may recognize them by their names.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/answer/findings/findings.h"
#include "core/answer/findings/trace_step_time_diff.h"
#include "core/answer/report/chart/memory_chart.h"
#include "core/answer/report/chart/stacked_memory_series.h"
#include "core/answer/report/interchange/memory_snapshot.h"
#include "tests/findings/made_up.h"

namespace memtune::report_block_names_test {

using namespace memtune;
using findings::MadeUp;
using trace::EventKind;
using trace::MemoryOwnerKind;
using trace::Pass;
using trace::TraceRegionKey;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// Names with the number at the end, inside and missing, and names that do not look like blocks.
const std::vector<std::vector<std::string>> kNames = {{"layers.0", "layers.1"},
                                                      {"down_blocks.0.attn", "down_blocks.1.attn"},
                                                      {"layer1", "layer2"},
                                                      {"encoder", "decoder"},
                                                      {"0", "1"},
                                                      {"head", "stem.3.norm"}};

// A step in which each block computes forward and backward. The second block's activation is reloaded `late_ms` late.
MadeUp blocks_named(const std::vector<std::string>& names, double late_ms) {
  MadeUp made;
  made.trace.owners = {{MemoryOwnerKind::parameters, "parameters"}, {MemoryOwnerKind::outside, "outside of blocks"}};
  made.trace.owned = {{0, 0, kGiB}, {0, 1, 1 << 20}};
  made.step(0, 100 + late_ms);
  for (int32_t block = 0; block < 2; ++block) {
    const std::string& name = names[static_cast<size_t>(block)];
    made.value(name, block, block == 0 ? "keep" : "host", kGiB);
    made.trace.owners.push_back({MemoryOwnerKind::block, name, block});
    made.trace.owned.push_back({10 + block, static_cast<uint32_t>(2 + block), 3 * kGiB});
    made.region(20 * block, 20 * block + 20, TraceRegionKey::of_block(block), name);
  }
  made.kernel(0, 60);
  made.add(EventKind::copy_in, 50, 60 + late_ms, "", kGiB, trace::ValueId(1));
  made.kernel(60 + late_ms, 100 + late_ms);
  made.region(60, 100 + late_ms, TraceRegionKey::of_block(1, Pass::backward), names[1] + " backward");
  made.region(0, 1, {trace::TraceRegionLevel::head}, "head");
  made.trace.memory = {{0, 2 * kGiB}, {20, 8 * kGiB}, {30, 7 * kGiB}};
  return made;
}

const findings::Finding& of_rule(const std::vector<findings::Finding>& all, const std::string& rule) {
  const auto found = std::ranges::find(all, rule, &findings::Finding::rule);
  REQUIRE(found != all.end());
  return *found;
}

}  // namespace

TEST_CASE("memory of a block belongs to that block under any name and the head's memory does not") {
  for (const std::vector<std::string>& names : kNames) {
    CAPTURE(names[0]);
    const report::StackedMemorySeries stack = report::stack_memory(blocks_named(names, 0).trace, 4);
    std::vector<std::string> blocks;
    for (const report::MemoryOwnerBand& band : stack.bands)
      if (band.owner.kind == MemoryOwnerKind::block) blocks.push_back(band.owner.name);
    CHECK(blocks == names);
    CHECK(stack.bands[3].owner.name == "outside of blocks");
  }
}

TEST_CASE("numbered blocks are one entry of the chart's legend and one holder in the peak text") {
  const auto chart = [](size_t i) { return report::memory_chart(blocks_named(kNames[i], 0).trace, 0); };
  CHECK(chart(0).find("layers.0 to layers.1") != std::string::npos);
  CHECK(chart(1).find("down_blocks.0.attn to down_blocks.1.attn") != std::string::npos);
  CHECK(chart(2).find("layer1 to layer2") != std::string::npos);
  CHECK(chart(3).find(" to decoder") == std::string::npos);
  CHECK(report::peak_text(blocks_named(kNames[1], 0).trace).find(": down_blocks.*.attn 6 GiB") != std::string::npos);
  CHECK(report::peak_text(blocks_named(kNames[2], 0).trace).find(": layer 6 GiB") != std::string::npos);
  CHECK(report::peak_text(blocks_named(kNames[4], 0).trace).find(": blocks 6 GiB") != std::string::npos);
}

TEST_CASE("a snapshot names memory of blocks activations") {
  for (const std::vector<std::string>& names : kNames) {
    CAPTURE(names[0]);
    CHECK(report::memory_snapshot(blocks_named(names, 0).trace).find("activations") != std::string::npos);
  }
}

TEST_CASE("late reloads for the last block give the advice to keep it under any block name") {
  for (const std::vector<std::string>& names : kNames) {
    CAPTURE(names[0]);
    result::TrialMeasurement measured;
    measured.transfer.in_bytes = 1;
    measured.strategy = "offload:stream";
    measured.step_ms.median = 110;
    plan::Plan plan;
    plan.strategy = "offload:stream";
    const auto found = findings::find(blocks_named(names, 10).trace, measured, &plan);
    const findings::Finding& late = of_rule(found, "copies-in-late");
    CHECK(late.what == "copies in exposed 10 ms a step, most of it for " + names[1]);
    CHECK(late.advice == "keep_last=0 -> keep_last=1");
  }
}

TEST_CASE("the advice for the largest owner at the peak is that for a block under any block name") {
  for (const std::vector<std::string>& names : kNames) {
    CAPTURE(names[0]);
    const findings::Finding peak = of_rule(findings::find(blocks_named(names, 0).trace, {}, nullptr), "peak-owner");
    CHECK(peak.advice.starts_with("recompute or offload more of"));
  }
}

TEST_CASE("the diff sums all blocks and compares blocks by position if their names differ") {
  for (const std::vector<std::string>& names : kNames) {
    CAPTURE(names[0]);
    const findings::TraceStepTimeDiff diff =
        findings::diff(blocks_named(kNames[0], 0).trace, blocks_named(names, 10).trace);
    const auto part = [&](const std::string& name) {
      const auto found = std::ranges::find(diff.parts, name, &findings::StepPartDiff::name);
      REQUIRE(found != diff.parts.end());
      return found->delta_ms();
    };
    CHECK(part("all blocks backward") == doctest::Approx(10));
    CHECK(part("all blocks forward") == doctest::Approx(0));
    CHECK(part("layers.1 backward") == doctest::Approx(10));
    CHECK(diff.parts.size() == findings::kDeviceParts.size() + 6);
  }
}

}  // namespace memtune::report_block_names_test
