// The answers of "memtune plan --from", from a sweep folder with recorded costs.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/plan/facts/machine_profile.h"
#include "core/sweep/ranks/rank_trials.h"
#include "tests/cli/paper_run.h"

namespace memtune::predicted_plans_test {

using namespace memtune;
using namespace memtune::test;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text)
    if (c != '\n' && !(c == ' ' && line.ends_with(' ')))
      line += c;
    else if (!line.ends_with(' '))
      line += ' ';
  return line;
}

}  // namespace

TEST_CASE("a list of budgets gives a table with lower bounds and a plot with measurements") {
  const PaperRun place;
  const Ended ended = place.memtune("plan --from memtune-run");
  CHECK(ended.code == 0);
  CHECK(has(ended.out, "  step ms  least ms  × none  "));
  CHECK(has(ended.out, " least ms: lower bound of the predicted step time of all plans within the budget\n"));
  CHECK(has(ended.out, " ◇ the best plans for other budgets, predicted\n"));
  CHECK(has(ended.out, " a  none "));
  CHECK_FALSE(has(ended.out, " why\n"));
  const json plans = json::parse(place.memtune("plan --from memtune-run --json -").out)["plans"];
  REQUIRE(plans.size() == 8);
  for (size_t i = 1; i < plans.size(); ++i) {
    const json &one = plans[i]["predicted"], &above = plans[i - 1]["predicted"];
    CHECK(one["step_ms"] >= above["step_ms"]);
    CHECK(one["least_ms"] <= one["step_ms"]);
    CHECK_FALSE(plans[i].contains("reasons"));
  }
}

TEST_CASE("plans from engines that never ran on a GPU say so") {
  const PaperRun place;
  const sweep::RunDirectory run(place.folder.path / "memtune-run");
  for (const bool untested : {false, true}) {
    sweep::SweepJsonSettingsFactsAndTrials record = run.read_record();
    record.request.training.device = "cuda:0";
    record.origin.torch = untested ? "2.15.0" : "2.11.0";
    run.write_record(record);
    const Ended ended = place.memtune("plan --from memtune-run --budget 8GiB");
    CHECK(ended.code == 0);
    CHECK(has(ended.out, "\n PyTorch 2.15: untested on GPU\n") == untested);
  }
}

TEST_CASE("a single budget explains the policy per block and what binds") {
  const PaperRun place;
  const Ended ended = place.memtune("plan --from memtune-run --budget 8GiB");
  CHECK(ended.code == 0);
  CHECK(has(ended.out, "\n why\n"));
  CHECK(has(ended.out, "(the budget has room; "));
  CHECK(has(ended.out, "  limited by: the peak, "));
  CHECK(has(in_one_line(ended.out), " below the budget"));
  for (const std::string& line : split(ended.out, '\n')) CHECK(line.size() < 120);
  const json reasons =
      json::parse(place.memtune("plan --from memtune-run --budget 8GiB --json -").out)["plans"][0]["reasons"];
  CHECK(reasons["binds"]["peak_bytes"] > 0);
  size_t blocks = 0;
  for (const json& parts : reasons["parts"]) {
    blocks += parts["blocks"].size();
    CHECK(parts["kept"]["bytes"] >= parts["kept"]["next_bytes"]);
  }
  CHECK(blocks == 6);
  const std::string two = place.memtune("plan --from memtune-run --budget 8GiB --budget 7GiB").out;
  CHECK(has(two, " why, under 8 GiB\n"));
  CHECK(has(two, " why, under 7 GiB\n"));
}

TEST_CASE("a plan for a GPU that needs expandable segments has a note") {
  const PaperRun place;
  const auto told = [&] { return in_one_line(place.memtune("plan --from memtune-run --budget 7300MiB").out); };
  CHECK_FALSE(has(told(), "expandable_segments"));
  const std::filesystem::path file = place.folder.path / "memtune-run/trials/1-none/costs.json";
  json costs = json::parse(slurp(file));
  costs["grain_bytes"] = 512;
  write_file(file, costs.dump());
  CHECK(has(told(),
            "plan:7.13 GiB: needs PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, because free memory is "
            "predicted to be in pieces"));
}

TEST_CASE("the saving per GiB is shown for each budget except the largest in any order") {
  const PaperRun place;
  const auto rows = [&](const std::string& budgets) {
    std::vector<std::string> rows;
    for (const std::string& line : split(place.memtune("plan --from memtune-run " + budgets).out, '\n'))
      if (has(line.substr(0, 10), "GiB  ")) rows.push_back(line);
    std::ranges::sort(rows);
    return rows;
  };
  const auto down = rows("--budget 8GiB,7GiB,6GiB");
  REQUIRE(down.size() == 3);
  CHECK(down[0].size() == down[1].size());
  CHECK(down[1].size() > down[2].size());
  CHECK(rows("--budget 6GiB,7GiB,8GiB") == down);
  CHECK(rows("--budget 7GiB --budget 6GiB,8GiB") == down);
}

TEST_CASE("a plan goes to stdout alone for piping") {
  const PaperRun place;
  const Ended ended = place.memtune("plan --from memtune-run --budget 8GiB --write -");
  CHECK(ended.code == 0);
  CHECK(json::parse(ended.out)["strategy"] == "plan:8 GiB");
  const Ended both = place.memtune("plan --from memtune-run --budget 8GiB --write - --json answer.json");
  CHECK(json::parse(both.out)["strategy"] == "plan:8 GiB");
  CHECK(json::parse(slurp(place.folder.path / "answer.json"))["plans"].size() == 1);
}

TEST_CASE("flags that belong to the recorded run are refused") {
  const PaperRun place;
  for (const char* flag : {"--model tiny", "--steps 2", "--out here", "--dtype bf16", "--memory-cap 1GiB", "--pack"}) {
    CAPTURE(flag);
    const Ended ended = place.memtune(std::string("plan --from memtune-run ") + flag);
    CHECK(ended.code == 2);
    CHECK(has(ended.err, "plan --from: " + split(flag, ' ').front() + " comes from the run. "));
    CHECK(count_lines(ended.err) == 1);
  }
  const Ended fine = place.memtune("plan --from memtune-run --host-budget 1GiB -q --no-color");
  CHECK(fine.code == 0);
  CHECK(fine.err.empty());
}

TEST_CASE("another batch scales the step except for memory independent of the batch") {
  const PaperRun place("", "paper.pt", 8);
  const auto plan = [&](const std::string& flags) {
    return json::parse(place.memtune("plan --from memtune-run --json - " + flags).out);
  };
  const json own = plan(""), same = plan("--batch 8"), twice = plan("--batch 16"), half = plan("--batch 4");
  CHECK_FALSE(own.contains("batches"));
  CHECK(same["plans"] == own["plans"]);
  CHECK(twice["batches"] == json{{"recorded", {8}}, {"planned_for", 16}, {"looked_at", json::array()}});
  const auto peak = [](const json& answer) { return answer["plans"][0]["predicted"]["peak_bytes"].get<int64_t>(); };
  CHECK(peak(twice) - peak(own) == 2 * (peak(own) - peak(half)));
  CHECK(twice["none_ms"].get<double>() == doctest::Approx(2 * own["none_ms"].get<double>()));
  const json& step = twice["plans"][0]["predicted"];
  CHECK(step["step_ms_from"].get<double>() == doctest::Approx(own["none_ms"].get<double>()));
  CHECK(step["step_ms_to"] == step["step_ms"]);

  const Ended told = place.memtune("plan --from memtune-run --batch 16 --budget 20GiB");
  CHECK(has(told.out, "recorded with batch 8, planned for batch 16, predicted: a step of none takes "));
  CHECK(has(told.out, "  from, to\n"));
  CHECK(has(in_one_line(told.out), "predicted from batch 8 only: parameters, their gradients, the optimizer and "));

  const json there = plan("--batch 16 --machine h100 --from-machine h200");
  CHECK(there["plans"][0]["predicted"]["peak_bytes"] == step["peak_bytes"]);
  CHECK(there["batches"] == twice["batches"]);
  CHECK(there["plans"][0]["predicted"]["step_ms_from"] < there["plans"][0]["predicted"]["step_ms"]);
}

// Makes the run's step one that two ranks recorded, each with shards of 1 GiB.
void shard(const PaperRun& place, int64_t shard_bytes = 1024 * kMiB) {
  const auto file = place.folder.path / "memtune-run/trials/1-none/costs.json";
  plan::RecordedStepCosts costs = json::parse(slurp(file));
  costs.start_bytes = 1024 * kMiB;
  costs.after_ms = costs.step_ms / 10;
  costs.sharding.ranks = 2;
  costs.sharding.shard_bytes = shard_bytes;
  costs.sharding.units = {{"layers.0", kMiB, 0.1}};
  for (int rank = 0; rank < 2; ++rank) {
    costs.sharding.rank = rank;
    std::ofstream(sweep::costs_of_rank(file, rank)) << json(costs);
  }
}

TEST_CASE("another number of ranks scales shards and the optimizer's time") {
  const PaperRun place;
  shard(place);
  const auto plan = [&](const std::string& flags) {
    return json::parse(place.memtune("plan --from memtune-run --json - " + flags).out);
  };
  const json own = plan(""), same = plan("--ranks 2"), four = plan("--ranks 4");
  CHECK_FALSE(own.contains("ranks"));
  CHECK(same["plans"] == own["plans"]);
  CHECK(four["ranks"] == json{{"recorded", 2}, {"planned_for", 4}});
  const auto peak = [](const json& answer) { return answer["plans"][0]["predicted"]["peak_bytes"].get<int64_t>(); };
  CHECK(peak(own) - peak(four) == 512 * kMiB);
  CHECK(own["least_bytes"].get<int64_t>() - four["least_bytes"].get<int64_t>() == 512 * kMiB);
  CHECK(four["none_ms"].get<double>() == doctest::Approx(0.95 * own["none_ms"].get<double>()));

  const Ended told = place.memtune("plan --from memtune-run --ranks 4 --budget 20GiB --write four.json");
  CHECK(has(told.out, "recorded on 2 ranks, planned for 4, predicted: a step of none takes "));
  CHECK(has(in_one_line(told.out), "assumes 4 ranks on one host with links like the recorded ones"));
  CHECK(has(in_one_line(told.out), "memtune sweep --ranks 4 --plan FILE"));
  CHECK(has(in_one_line(told.out), "memtune doctor measures all links together"));
  CHECK(json::parse(slurp(place.folder.path / "four.json"))["strategy"] == "plan:20 GiB");
}

TEST_CASE("a plan for more ranks offloads less over links that are slower together") {
  const PaperRun place;
  shard(place);
  const auto step = [&](const std::string& flags) -> json {
    const std::string command = "plan --from memtune-run --ranks 4 --budget 10GiB --json - " + flags;
    return json::parse(place.memtune(command).out)["plans"][0]["predicted"];
  };
  const json recorded = step(""), slow = step("--link-rates 0.5,0.5");
  CHECK(slow["step_ms"] > recorded["step_ms"]);
  CHECK(slow["out_bytes"] < recorded["out_bytes"]);
  const Ended told = place.memtune("plan --from memtune-run --ranks 2 --link-rates 0.5,0.5");
  CHECK(has(in_one_line(told.out), "copies to and from the host: at the rates of --link-rates"));
  const json ranks =
      json::parse(place.memtune("plan --from memtune-run --ranks 2 --link-rates 1,2 --json -").out)["ranks"];
  CHECK(ranks["link_rates"] == json{1, 2});
}

TEST_CASE("a number of ranks that the run cannot predict is refused in one line") {
  const PaperRun one, old, two;
  shard(old, plan::RecordedStepCosts::Sharding::kUnknown);
  shard(two);
  const auto refusal = [](const PaperRun& run, const std::string& flags) {
    const Ended ended = run.memtune("plan --from memtune-run " + flags);
    CHECK(ended.code == 2);
    CHECK(count_lines(ended.err) == 1);
    return ended.err;
  };
  CHECK(has(refusal(one, "--ranks 4"), "--ranks: the step of one rank is not sharded"));
  CHECK(has(refusal(old, "--ranks 4"), "record none again"));
  CHECK(has(refusal(two, "--ranks 1"), "--ranks: 1 is out of range; it takes 2 to "));
  CHECK(has(refusal(two, "--link-rates 37,47"), "--link-rates goes with --ranks"));
  CHECK(has(refusal(two, "--ranks 4 --link-rates 37"), "'37' is not OUT,IN in GB/s"));
  CHECK(has(refusal(two, "--ranks 4 --link-rates 37,x"), "--link-rates"));
  CHECK(has(refusal(two, "--ranks 4 --link-rates 0,47"), "has a rate that no link has"));
  CHECK(has(refusal(two, "--ranks 4 --machine h100"), "--ranks and --machine exclude each other"));
  CHECK(has(one.memtune("plan validate x.json --ranks 4").err, "--ranks is for predicted plans: it needs --from"));
}

TEST_CASE("--batch auto finds the fastest batch under a budget") {
  const PaperRun place("", "paper.pt", 8);
  const Ended ended = place.memtune("plan --from memtune-run --batch auto --budget 20GiB --json -");
  REQUIRE(ended.code == 0);
  const json answer = json::parse(ended.out);
  const json& looked = answer["batches"]["looked_at"];
  REQUIRE(looked.size() > 1);
  double best = 0;
  for (const json& one : looked)
    if (one["fits"].get<bool>()) best = std::max(best, one["samples_per_s"].get<double>());
  for (const json& one : looked)
    if (one["batch"] == answer["batches"]["planned_for"]) CHECK(one["samples_per_s"] == best);
  CHECK(answer["plans"][0]["predicted"]["peak_bytes"] <= int64_t{20} << 30);
  CHECK(has(place.memtune("plan --from memtune-run --batch auto --budget 20GiB").out, "batch auto: batch 1 "));
}

TEST_CASE("an invalid batch for the run is refused in one line") {
  const PaperRun place("", "paper.pt", 8), unknown;
  const auto refusal = [](const PaperRun& run, const std::string& flags) {
    const Ended ended = run.memtune("plan --from memtune-run " + flags);
    CHECK(ended.code == 2);
    return ended.err;
  };
  CHECK(has(refusal(place, "--batch 0"), "--batch"));
  CHECK(has(refusal(place, "--batch 4,8"), "--batch: '4,8' is not a whole number"));
  CHECK(has(refusal(place, "--batch auto"), "give one --budget"));
  CHECK(has(refusal(place, "--batch auto --budget 1KiB"), "no batch has a plan that fits 1 KiB; the smallest takes "));
  CHECK(has(refusal(unknown, "--batch 4"), "the samples of this run's inputs are not known"));
  CHECK(has(place.memtune("plan validate x.json --batch 4").err, "--batch is for predicted plans: it needs --from"));
}

TEST_CASE("an untrusted run's model name cannot control the terminal") {
  const PaperRun place("", "x\x1b[31m\u009b31m\ny");
  const std::string shown = place.memtune("plan --from memtune-run --budget 8GiB").out;
  CHECK(shown.starts_with("x\uFFFD[31m\uFFFD31m\uFFFDy "));
}

TEST_CASE("a machine that no plan fits gives one line and a failure") {
  const PaperRun place("NVIDIA H200");
  json machine = plan::find_machine("h100");
  machine["memory_bytes"] = 4 * kMiB;
  std::ofstream(place.folder.path / "small.json") << machine;
  const Ended ended = place.memtune("plan --from memtune-run --machine small.json");
  CHECK(ended.code == 1);
  CHECK(has(ended.out, "\n   4 MiB  no plan fits; the smallest takes "));
  CHECK(count_lines(place.memtune("plan --from memtune-run --machine h100").out) == count_lines(ended.out) + 7);
}

TEST_CASE("a machine guessed from the device name is reported and an impossible one is refused") {
  const PaperRun place("NVIDIA H200");
  const std::string same = in_one_line(place.memtune("plan --from memtune-run --machine h200").out);
  CHECK(has(same, "step ms: as measured, because both machines are h200, by the name of the device; "));
  const std::string said = place.memtune("plan --from memtune-run --machine h200 --from-machine h200").out;
  CHECK_FALSE(has(said, "by the name"));
  CHECK_FALSE(has(place.memtune("plan --from memtune-run --machine h100").out, "as measured"));
  json machine = plan::find_machine("h100");
  machine["emulated"] = true;
  std::ofstream(place.folder.path / "played.json") << machine;
  const Ended ended = place.memtune("plan --from memtune-run --machine played.json --from-machine played.json");
  CHECK(ended.code == 2);
  CHECK(has(ended.err, "' is emulated by the CPU, and the run was measured on 'NVIDIA H200'"));
}

TEST_CASE("a dry run under a budget says what is decided later") {
  const Workspace place;
  const Ended ended = place.memtune("sweep -q --dry-run --model tiny --budget 1GiB");
  CHECK(ended.code == 0);
  CHECK(has(ended.out,
            "none\n# then, unless none fits 1 GiB: a plan for it, computed from the costs of a step of none, "));
  CHECK(has(ended.out, "\n#   none, checkpoint:full"));
  CHECK_FALSE(has(place.memtune("sweep -q --dry-run --model tiny --strategy none --budget 1GiB").out, "#"));
}

}  // namespace memtune::predicted_plans_test
