// Scripts and resumed sweeps read a measurement's JSON. Its statistics decide which trial is faster.
#include "core/record/measurement/trial_measurement.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.h"

namespace memtune::measurement_test {

using namespace memtune;
using namespace memtune::result;
using Json = nlohmann::json;

namespace {

TrialMeasurement full() {
  TrialMeasurement m;
  m.strategy = "offload:stream";
  m.outcome = TrialOutcome::mismatch;
  m.reason = "gradients differ";
  m.step_ms = {12.5, 12.25, 13, {13, 12.25, 12.5}};
  m.noisy = true;
  m.peak_bytes = {1000, 2000, 3000};
  m.floor_bytes = 400;
  m.host_bytes = 500;
  m.samples_per_s = 320;
  m.tokens_per_s = 1.5e6;
  m.transfer = {10, 20, 8, 9, 0.75, 0.5, 40, 41, 52, 53};
  m.communication = {30, 15, 0.25, 2};
  m.stalls = {1.5, 2.5, 3.5};
  m.host_peak_bytes = 450;
  m.disk_peak_bytes = 8;
  m.recompute_ms = 0.25;
  m.engine_ms = 0.125;
  m.recomputed_ops = 7;
  m.loss = {10.5, 10.25};
  m.loss_per_backward = {{10, 0.5}, {10.25}};
  m.loss_unscaled = {5.25, 10.25};
  m.trained_tensors = 20;
  m.tensors_without_gradient = 16;
  m.period = {4, 11.5, 420};
  m.time_shares = TrainingPhaseTimeShares{0.25,   0.125, 0.25, 0.125, 0.0625, 0.0625,          0.0625,
                                          0.0625, 2,     true, true,  "trl",  {{"fused", "x"}}};
  m.gradients = {true, false, 0.125, "layers.0.weight", "none", true};
  m.losses = {true, true, 2, 10.5, 10.25, 0.125, "own", 3};
  m.dtype = "bfloat16";
  m.recomputed_bytes = 70;
  TrialRoundTimesAndMachineLoad round;
  round.step_ms = summarize({12.5});
  round.base = "none";
  round.base_ms = 10;
  round.load = 1.5;
  round.other_cores = 0.25;
  round.cores = 4;
  round.gpu_processes = 2;
  round.loss = {10.25};
  m.rounds.push_back(round);
  m.optimizer_ms = 0.75;
  m.ranks = {{1, summarize({12.5}), {1, 2, 3}, 0.75, {10.5}, 0.25}};
  m.profiler_overhead = 0.01;
  m.emulated = true;
  m.device = "NVIDIA H200";
  m.cap_bytes = 3500;
  m.allocator = "expandable_segments:True";
  m.fragmented = true;
  m.allocator_retries = 4;
  m.allocator_segments = 5;
  m.plan = "trials/1/plan.json";
  m.trace = "trials/1/trace.mtt";
  return m;
}

}  // namespace

TEST_CASE("the JSON of a measurement has the field names that scripts use") {
  const Json expected = Json::parse(R"({
    "strategy": "offload:stream", "outcome": "mismatch", "reason": "gradients differ",
    "step_ms": {"median": 12.5, "low": 12.25, "high": 13.0, "samples": [13.0, 12.25, 12.5]}, "noisy": true,
    "no_effect": "", "equal_to": "", "recomputed_bytes": 70,
    "rounds": [{"step_ms": {"median": 12.5, "low": 12.5, "high": 12.5, "samples": [12.5]}, "base": "none",
                "base_ms": 10.0, "load": 1.5, "other_cores": 0.25, "cores": 4, "gpu_processes": 2,
                "loss": [10.25]}],
    "peak_bytes": {"allocated": 1000, "reserved": 2000, "device": 3000}, "cap_bytes": 3500, "allocator": "expandable_segments:True", "fragmented": true, "allocator_retries": 4, "allocator_segments": 5, "floor_bytes": 400, "host_bytes": 500,
    "host_peak_bytes": 450, "disk_peak_bytes": 8, "stalls": {"room_ms": 1.5, "disk_ms": 2.5, "copy_ms": 3.5},
    "samples_per_s": 320.0, "tokens_per_s": 1.5e6,
    "transfer": {"out_bytes": 10, "in_bytes": 20, "disk_write_bytes": 8, "disk_read_bytes": 9, "hidden": 0.75, "exposed_ms": 0.5, "out_gb_per_s": 40.0,
                 "in_gb_per_s": 41.0, "link_out_gb_per_s": 52.0, "link_in_gb_per_s": 53.0},
    "recomputed_ops": 7, "recompute_ms": 0.25, "engine_ms": 0.125, "loss": [10.5, 10.25],
    "loss_per_backward": [[10.0, 0.5], [10.25]], "loss_unscaled": [5.25, 10.25], "trained_tensors": 20,
    "tensors_without_gradient": 16, "period": {"steps": 4, "median_ms": 11.5, "longest_ms": 420.0},
    "time_shares": {"data": 0.25, "forward": 0.125, "backward": 0.25, "update": 0.125, "evaluation": 0.0625,
                    "generation": 0.0625, "save": 0.0625, "rest": 0.0625, "loader_workers": 2,
                    "evaluates": true, "unfused": true, "trainer": "trl", "words": [{"setting": "fused", "text": "x"}]},
    "gradients": {"compared": true, "equal": false, "max_abs_difference": 0.125, "worst": "layers.0.weight",
                  "against": "none", "undecided": true},
    "losses": {"compared": true, "changed": true, "step": 2, "loss": 10.5, "expected": 10.25, "allowed": 0.125,
               "against": "own", "without_gradient": 3}, "dtype": "bfloat16",
    "optimizer_ms": 0.75,
    "ranks": [{"rank": 1, "step_ms": {"median": 12.5, "low": 12.5, "high": 12.5, "samples": [12.5]},
               "peak_bytes": {"allocated": 1, "reserved": 2, "device": 3}, "optimizer_ms": 0.75, "loss": [10.5],
               "exposed_communication_ms": 0.25}],
    "communication": {"gathered_bytes": 30, "reduced_bytes": 15, "exposed_ms": 0.25, "collectives_ms": 2.0},
    "profiler_overhead": 0.01, "emulated": true, "device": "NVIDIA H200",
    "plan": "trials/1/plan.json", "trace": "trials/1/trace.mtt"})");
  CHECK(Json(full()) == expected);
}

TEST_CASE("a full and an empty measurement are read back unchanged") {
  for (const TrialMeasurement& measurement : {full(), TrialMeasurement()}) {
    const std::string written = Json(measurement).dump();
    CHECK(Json(Json::parse(written).get<TrialMeasurement>()).dump() == written);
  }
}

TEST_CASE("what held the memory of a device is read back unchanged and left out if it is not known") {
  CHECK_FALSE(Json(full()).contains("oom"));
  CHECK_FALSE(Json(full()).contains("growth"));
  TrialMeasurement m = full();
  OutOfMemoryBreakdown& oom = m.oom.emplace();
  oom.phase = PeakMemoryTrainingPhase::backward;
  oom.other_processes_bytes = 80;
  oom.held_after_steps = {90, 91};
  oom.batch = {2, 30, 32};
  oom.models = {{"Llama", 100, true}};
  oom.lines = {{"model.py", 7, "forward", "softmax", "x", 110, 3}};
  oom.where.line = 9;
  const Json json = m;
  CHECK(json["oom"]["phase"] == "backward");
  CHECK(json["oom"]["other_processes_bytes"] == 80);
  CHECK(json["oom"]["held_after_steps"] == Json::parse("[90, 91]"));
  CHECK(json["oom"]["batch"] == Json::parse(R"({"rows": 2, "tokens": 30, "positions": 32})"));
  CHECK(json["oom"]["lines"][0]["inner"] == "softmax");
  CHECK(Json(json.get<TrialMeasurement>()) == json);
  Json other = json;
  other["oom"]["phase"] = "sideways";
  CHECK_THROWS_AS(other.get<TrialMeasurement>(), UsageError);
}

TEST_CASE("who held the memory of a step is read back unchanged and left out if it is not known") {
  CHECK_FALSE(Json(full()).contains("memory"));
  TrialMeasurement m = full();
  StepMemoryBreakdown& memory = m.memory.emplace();
  memory.step = 9;
  memory.phase = PeakMemoryTrainingPhase::backward;
  memory.measured_bytes = 110;
  memory.owners = {{StepMemoryCategory::parameters, 40, 40, 40}, {StepMemoryCategory::logits, 0, 70, 0}};
  memory.lines = {{"model.py", 7, "forward", "softmax", "x", 70, 3}};
  memory.modules = {{"layers.*.mlp", 30, 20, 2}};
  memory.paths = "memory.stacks";
  CHECK(peak_of(memory) == 110);
  const Json json = m;
  CHECK(json["memory"]["owners"][1] ==
        Json::parse(R"({"kind": "logits", "before_bytes": 0, "peak_bytes": 70, "end_bytes": 0})"));
  CHECK(json["memory"]["modules"][0]["saved_bytes"] == 20);
  CHECK(Json(json.get<TrialMeasurement>()) == json);
  const auto refused = [&](const char* pointer, const Json& value) {
    Json other = json;
    other[Json::json_pointer(pointer)] = value;
    CHECK_THROWS_AS(other.get<TrialMeasurement>(), UsageError);
  };
  refused("/memory/owners/0/kind", "furniture");
  refused("/memory/owners/0/peak_bytes", -1);
  refused("/memory/owners/0/before_bytes", int64_t{1} << 51);
  refused("/memory/lines/0/bytes", -1);
  refused("/memory/modules/0/saved_bytes", -1);
  refused("/memory/measured_bytes", -1);
  refused("/memory/paths", "../memory.stacks");
  refused("/memory/owners", std::vector<Json>(13, json["memory"]["owners"][0]));
}

TEST_CASE("call paths are lines of frames with bytes") {
  const std::string text = "activations;a.py:1:f;b.py:2:g 300\nother;<non-python> 5\n";
  const std::vector<MemoryOfCallPath> paths = parse_call_paths(text);
  REQUIRE(paths.size() == 2);
  CHECK(paths[0].frames == std::vector<std::string>{"activations", "a.py:1:f", "b.py:2:g"});
  CHECK(paths[0].bytes == 300);
  CHECK(to_text(paths) == text);
  CHECK(parse_call_paths("no bytes\na -1\nb 1x\nc 9999999999999999999\n\nd 7\n").size() == 1);
  std::string many, deep = "a";
  for (int i = 0; i < 5000; ++i) many += "a 1\n";
  for (int i = 0; i < 300; ++i) deep += ";b";
  CHECK(parse_call_paths(many).size() == 2100);
  CHECK(parse_call_paths(deep + " 1\n").empty());
}

TEST_CASE("non-finite numbers become null in JSON and come back as NaN") {
  TrialMeasurement measurement = full();
  measurement.loss = {10.5, std::nan(""), std::numeric_limits<double>::infinity()};
  measurement.gradients.max_abs_difference = std::nan("");
  CHECK(Json(measurement)["loss"][1].is_null());
  const Json json = Json::parse(Json(measurement).dump());
  CHECK(json["loss"] == Json::parse("[10.5, null, null]"));
  const auto read = json.get<TrialMeasurement>();
  REQUIRE(read.loss.size() == 3);
  CHECK(read.loss[0] == 10.5);
  CHECK(std::isnan(read.loss[1]));
  CHECK(std::isnan(read.loss[2]));
  CHECK(std::isnan(read.gradients.max_abs_difference));
}

TEST_CASE("a reason cut within a character can still be written") {
  TrialMeasurement measurement;
  measurement.reason = "caf\xc3";
  CHECK(Json(measurement).dump().find("caf\xef\xbf\xbd") != std::string::npos);
}

TEST_CASE("absent keys keep their defaults but strategy and outcome are required") {
  const auto read = Json::parse(R"({"strategy": "none", "outcome": "timeout"})").get<TrialMeasurement>();
  CHECK(read.strategy == "none");
  CHECK(read.outcome == TrialOutcome::timeout);
  CHECK(read.loss.empty());
  CHECK_FALSE(read.gradients.compared);
  CHECK_THROWS_AS(Json::parse(R"({"strategy": "none"})").get<TrialMeasurement>(), UsageError);
  CHECK_THROWS_AS(Json::parse("[]").get<TrialMeasurement>(), UsageError);
  CHECK_THROWS_AS(Json::parse(R"({"strategy": "none", "outcome": "ok", "loss": "low"})").get<TrialMeasurement>(),
                  UsageError);
  CHECK_THROWS_AS(Json::parse(R"({"strategy": "none", "outcome": "ok", "step_ms": 3})").get<TrialMeasurement>(),
                  UsageError);
}

TEST_CASE("every outcome is parsed from its name") {
  for (const char* name : {"ok", "device_oom", "host_oom", "disk_full", "disk_error", "corrupt", "timeout", "crash",
                           "nan", "mismatch", "error", "interrupted", "killed", "skipped"})
    CHECK(to_string(parse_outcome(name)) == name);
  CHECK(to_string(TrialOutcome::ok) == "ok");
  CHECK(to_string(TrialOutcome::interrupted) == "interrupted");
  CHECK_THROWS_WITH_AS(parse_outcome("oom"),
                       "unknown outcome 'oom'. Known: ok, device_oom, host_oom, disk_full, "
                       "disk_error, corrupt, timeout, crash, nan, "
                       "mismatch, error, interrupted, killed, skipped",
                       UsageError);
}

TEST_CASE("zero and one and two samples are summarized exactly") {
  const StepTimeStats none = summarize({});
  CHECK(none.median == 0);
  CHECK(none.low == 0);
  CHECK(none.high == 0);
  const StepTimeStats one = summarize({3.5});
  CHECK(one.median == 3.5);
  CHECK(one.low == 3.5);
  CHECK(one.high == 3.5);
  const StepTimeStats two = summarize({5, 3});
  CHECK(two.median == 4);
  CHECK(two.low == 3);
  CHECK(two.high == 5);
}

TEST_CASE("the median is the middle sample or the mean of the two middle ones") {
  CHECK(summarize({9, 1, 5}).median == 5);
  CHECK(summarize({9, 1, 5, 6}).median == 5.5);
  CHECK(summarize({9, 1, 5}).samples == std::vector<double>{9, 1, 5});
}

TEST_CASE("the interval contains the median and is deterministic and independent of order") {
  const StepTimeStats a = summarize({10, 11, 12, 13, 14, 15, 16, 17, 18, 100});
  const StepTimeStats b = summarize({100, 18, 17, 16, 15, 14, 13, 12, 11, 10});
  CHECK(a.low == b.low);
  CHECK(a.high == b.high);
  CHECK(a.low <= a.median);
  CHECK(a.median <= a.high);
  CHECK(a.high < 100);  // one slow step does not widen the interval
  CHECK(a.low > 10);
  CHECK(summarize({2, 2, 2, 2}).low == 2);
  CHECK(summarize({2, 2, 2, 2}).high == 2);
}

TEST_CASE("the interval covers the true median in about 95 of 100 draws") {
  // Uniform on [0, 1): the true median is one half. The standard defines the generator's sequence.
  std::mt19937 random(3);
  int covered = 0;
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<double> samples(25);
    for (double& sample : samples) sample = random() / 4294967296.0;
    const StepTimeStats time = summarize(samples);
    covered += time.low <= 0.5 && 0.5 <= time.high;
  }
  CHECK(covered >= 180);
  CHECK(covered <= 198);
}

TEST_CASE("more samples narrow the interval") {
  std::vector<double> few, many;
  for (int i = 0; i < 400; ++i) (i % 40 == 0 ? few : many).push_back((i * 37) % 101);
  const StepTimeStats wide = summarize(few), narrow = summarize(many);
  CHECK(narrow.high - narrow.low < wide.high - wide.low);
}

TEST_CASE("the spread is the range divided by the median") {
  CHECK(spread(summarize({})) == 0);
  CHECK(spread(summarize({3})) == 0);
  CHECK(spread(summarize({9, 10, 12})) == doctest::Approx(0.3));
  CHECK(spread(summarize({0, 0})) == 0);
}

}  // namespace memtune::measurement_test
