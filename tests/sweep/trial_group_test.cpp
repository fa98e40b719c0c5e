// Ranks that train together cannot continue without each other. The outcome of a trial is that of the first rank that
// failed on its own. The other ranks must neither hide it nor keep running.
#include "core/sweep/trials/trial_group.h"

#include <doctest/doctest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/plan/request/trial_request.h"
#include "core/sweep/ranks/rank_trials.h"
#include "tests/support/run_program.h"
using namespace std::chrono_literals;

namespace memtune::sweep::trial_group_test {
namespace {

using result::TrialOutcome;

struct Group {
  test::ScratchFolder folder;
  test::Variable trial{"MEMTUNE_TRIAL", test::fake_trial()};
  test::Variable log{"FAKE_TRIAL_LOG", (folder.path / "starts").string()};

  TrialAnswer run(const std::string& rules, int ranks = 3, std::chrono::milliseconds limit = 20s) {
    const test::Variable behaviour("FAKE_TRIAL", rules);
    plan::TrialRequest request;
    request.plan.strategy = "none";
    request.training.ranks = ranks;
    request.envelope.reference = (folder.path / "reference.bin").string();
    request.envelope.trace = (folder.path / "trace").string();
    request.envelope.costs = (folder.path / "costs.json").string();
    write_file(folder.path / "request.json", nlohmann::json(request).dump());
    TrialProcessSettings command{{"run", (folder.path / "request.json").string()}, folder.path / "log.txt", limit, {}};
    command.grace = 300ms;
    return run_ranks(request, folder.path, "request.json", command, system_files());
  }

  ProcessFailure failure(const std::string& rules, std::chrono::milliseconds limit = 20s) {
    const TrialAnswer answer = run(rules, 3, limit);
    REQUIRE(std::holds_alternative<ProcessFailure>(answer));
    return std::get<ProcessFailure>(answer);
  }
};

TEST_CASE("ranks give one measurement and each has its own request and log and reference") {
  Group group;
  const TrialAnswer answer = group.run("");
  REQUIRE(std::holds_alternative<result::TrialMeasurement>(answer));
  CHECK(std::get<result::TrialMeasurement>(answer).ranks.size() == 3);
  const std::string starts = test::slurp(group.folder.path / "starts");
  for (const char* name : {"none\n", "none rank 1\n", "none rank 2\n"}) CHECK(starts.find(name) != std::string::npos);
  for (const char* name : {"log.txt", "log-rank1.txt", "request-rank2.json", "reference.bin", "reference-rank2.bin"})
    CHECK_MESSAGE(std::filesystem::exists(group.folder.path / name), name);
  const auto second = nlohmann::json::parse(test::slurp(group.folder.path / "request-rank1.json"));
  CHECK(second["rank"] == 1);
  CHECK(second["trace"] == (group.folder.path / "trace-rank1").string());
  CHECK(second["costs"] == (group.folder.path / "costs-rank1.json").string());
}

TEST_CASE("a trial with one rank is like any other trial") {
  Group group;
  const TrialAnswer answer = group.run("", 1);
  REQUIRE(std::holds_alternative<result::TrialMeasurement>(answer));
  CHECK(std::get<result::TrialMeasurement>(answer).ranks.empty());
  CHECK_FALSE(std::filesystem::exists(group.folder.path / "request-rank0.json"));
}

TEST_CASE("all ranks end if one fails and the reason is that rank's") {
  const auto start = std::chrono::steady_clock::now();
  const ProcessFailure crash = Group().failure("none=loses;none rank 1=crash;none rank 2=sleep");
  CHECK(crash.outcome == TrialOutcome::crash);
  CHECK(crash.reason.starts_with("rank 1: SIGSEGV (Segmentation fault) in phase measure, step 1 of 5"));
  CHECK(Group().failure("none=sleep;none rank 1=sleep;none rank 2=error").reason == "rank 2: an unplanned error");
  CHECK(std::chrono::steady_clock::now() - start < 10s);
}

TEST_CASE("out of memory on one rank is the result of the group") {
  const TrialAnswer answer = Group().run("none=loses;none rank 1=device_oom;none rank 2=loses");
  REQUIRE(std::holds_alternative<result::TrialMeasurement>(answer));
  CHECK(std::get<result::TrialMeasurement>(answer).outcome == TrialOutcome::device_oom);
  CHECK(std::get<result::TrialMeasurement>(answer).reason == "rank 1: asked for 2 GiB, 1 GiB free");
}

TEST_CASE("a killed rank is reported and not the ranks that lost it") {
  const ProcessFailure failure = Group().failure("none=loses;none rank 1=loses;none rank 2=killed");
  CHECK(failure.reason.starts_with("rank 2: "));
  CHECK((failure.outcome == TrialOutcome::killed || failure.outcome == TrialOutcome::host_oom));
}

TEST_CASE("a rank that others wait for is ended and named with the collective") {
  const auto start = std::chrono::steady_clock::now();
  const ProcessFailure failure = Group().failure("none=waits;none rank 1=hang;none rank 2=waits");
  CHECK(failure.outcome == TrialOutcome::timeout);
  CHECK(failure.reason ==
        "rank 1 did not arrive: somebody waited in the all-gather of h.0, in phase measure, step 1 of 5");
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE("ranks that lose each other are an error even if none of them failed") {
  const ProcessFailure failure = Group().failure("none=loses;none rank 1=loses;none rank 2=loses");
  CHECK(failure.outcome == TrialOutcome::error);
  CHECK(failure.reason == "somebody lost another, in phase measure, step 1 of 5");
}

TEST_CASE("the time limit of a trial applies to every rank") {
  const ProcessFailure failure = Group().failure("none=hang;none rank 1=hang;none rank 2=hang", 400ms);
  CHECK(failure.outcome == TrialOutcome::timeout);
  CHECK(failure.reason.find("no end within 0.4 s") != std::string::npos);
}

TEST_CASE("a usage error of the ranks is reported as a usage error") {
  const TrialAnswer answer = Group().run("none=usage;none rank 1=usage;none rank 2=usage");
  REQUIRE(std::holds_alternative<ReceivedUsageError>(answer));
}

}  // namespace
}  // namespace memtune::sweep::trial_group_test
