// Ranks on other machines are reached by messages alone. Their answers count as those of ranks on this machine. A rank
// runs only the model of its own command, and a lost rank must end all.
#include "core/sweep/ranks/worker_coordinator.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/confined_file_system.h"
#include "core/base/file.h"
#include "core/sweep/launch/socket.h"
#include "core/sweep/ranks/rank_trials.h"
#include "core/sweep/ranks/rendezvous.h"
#include "core/sweep/ranks/worker.h"
#include "tests/support/run_program.h"
using namespace std::chrono_literals;

namespace memtune::sweep::worker_group_test {
namespace {

using result::TrialOutcome;

constexpr int kRanks = 3;

// Runs rank 0 in this thread. Each other rank runs in its own thread with its own command.
struct Launched {
  explicit Launched(const std::string& rules = "", bool one_machine = true) : behaviour("FAKE_TRIAL", rules) {
    static constexpr std::chrono::milliseconds timeout = 20s;
    if (!one_machine) launch.local_size = 1, launch.host = "0.0.0.0";
    // Keeps a copy of each request that a trial gets.
    const std::filesystem::path trial = folder.path / "trial";
    std::ofstream(trial) << "#!/bin/sh\ncp \"$2\" \"" << folder.path.string() << "/seen-$$\"\nexec "
                         << test::fake_trial() << " \"$@\"\n";
    std::filesystem::permissions(trial, std::filesystem::perms::owner_all);
    variable.emplace("MEMTUNE_TRIAL", trial.string());
    { launch.port = launch::TcpListener(true, 0).port(); }
    for (int rank = 1; rank < kRanks; ++rank)
      codes.push_back(std::async(std::launch::async, [this, rank] { return follow_as(rank, timeout); }));
    workers = accept_workers(launch, {"profile --model tiny", timeout});
  }

  int follow_as(int rank, std::chrono::milliseconds timeout) const {
    launch::LauncherRankEnvironment own = launch;
    own.rank = rank;
    plan::TrialRequest request;
    request.model.path = "/own/model.pt";
    const auto coordinator = join_coordinator(own, {"profile --model tiny", timeout});
    return run_worker(own, *coordinator, request, timeout);
  }

  TrialAnswer run() {
    plan::TrialRequest request;
    request.plan.strategy = "none";
    request.training.ranks = kRanks;
    request.model.path = "/rank0/model.pt";
    request.envelope.reference = (folder.path / "reference.bin").string();
    request.envelope.trace = (folder.path / "trace").string();
    write_file(folder.path / "request.json", nlohmann::json(request).dump());
    TrialProcessSettings command{{"run", (folder.path / "request.json").string()}, folder.path / "log.txt", 20s, {}};
    command.grace = 300ms;
    return run_ranks(request, folder.path, "request.json", command, system_files(), workers.get());
  }

  std::vector<nlohmann::json> seen() const {
    std::vector<nlohmann::json> requests;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path))
      if (entry.path().filename().string().starts_with("seen-"))
        requests.push_back(nlohmann::json::parse(test::slurp(entry.path())));
    return requests;
  }

  test::ScratchFolder folder;
  test::Variable behaviour;
  std::optional<test::Variable> variable;
  launch::LauncherRankEnvironment launch{"torchrun", 0, kRanks, 0, kRanks, "127.0.0.1", 0, ""};
  std::vector<std::future<int>> codes;
  std::unique_ptr<WorkerCoordinator> workers;
};

TEST_CASE("ranks of a launch give one measurement and rank 0 has their logs and sets their exit code") {
  Launched launched;
  const TrialAnswer answer = launched.run();
  REQUIRE(std::holds_alternative<result::TrialMeasurement>(answer));
  CHECK(std::get<result::TrialMeasurement>(answer).ranks.size() == kRanks);
  for (const char* name : {"log.txt", "log-rank1.txt", "log-rank2.txt"})
    CHECK_MESSAGE(std::filesystem::exists(launched.folder.path / name), name);
  CHECK_FALSE(std::filesystem::exists(launched.folder.path / "reference-rank1.bin"));
  launched.workers->end(7);
  for (auto& code : launched.codes) CHECK(code.get() == 7);
}

TEST_CASE("another rank runs the model of its own command and writes only in its own folder") {
  bool one_machine = true;
  SUBCASE("on one machine") {}
  SUBCASE("on several") { one_machine = false; }
  Launched launched("", one_machine);
  launched.run();
  const std::vector<nlohmann::json> requests = launched.seen();
  REQUIRE(requests.size() == kRanks);
  std::vector<int> ranks;
  for (const nlohmann::json& request : requests) {
    ranks.push_back(request["rank"]);
    CHECK(request["rendezvous"] == requests.front()["rendezvous"]);
    CHECK(request["rendezvous"].get<std::string>().starts_with("tcp://127.0.0.1:") == !one_machine);
    const bool first = request["rank"] == 0;
    CHECK(request["model"]["path"] == (first ? "/rank0/model.pt" : "/own/model.pt"));
    CHECK((request["trace"] == "") == !first);
    CHECK(request["reference"].get<std::string>().starts_with(launched.folder.path.string()) == first);
    CHECK(request["reference"].get<std::string>().ends_with("/reference.bin"));
  }
  std::ranges::sort(ranks);
  CHECK(ranks == std::vector<int>{0, 1, 2});
}

TEST_CASE("the failure of one rank is the failure of the trial and the next trial runs") {
  Launched launched("none=loses;none rank 1=crash;none rank 2=sleep");
  const TrialAnswer answer = launched.run();
  REQUIRE(std::holds_alternative<ProcessFailure>(answer));
  CHECK(std::get<ProcessFailure>(answer).outcome == TrialOutcome::crash);
  CHECK(std::get<ProcessFailure>(answer).reason.starts_with("rank 1: SIGSEGV"));
  setenv("FAKE_TRIAL", "", 1);
  CHECK(std::holds_alternative<result::TrialMeasurement>(launched.run()));
}

TEST_CASE("failures of ranks on other machines are reported as those of local ranks") {
  const TrialAnswer missing = Launched("none=loses;none rank 1=loses;none rank 2=sleep").run();
  REQUIRE(std::holds_alternative<ProcessFailure>(missing));
  CHECK(std::get<ProcessFailure>(missing).reason.starts_with("rank 2 did not arrive: "));
  const TrialAnswer memory = Launched("none=loses;none rank 1=device_oom;none rank 2=loses").run();
  REQUIRE(std::holds_alternative<result::TrialMeasurement>(memory));
  CHECK(std::get<result::TrialMeasurement>(memory).outcome == TrialOutcome::device_oom);
}

TEST_CASE("a rank of another machine needs a network rendezvous and writes no file for rank 0") {
  const test::ScratchFolder folder;
  const launch::TcpListener listener(true, 0);
  launch::JsonMessageConnection own(launch::connect("127.0.0.1", listener.port(), 5s), 5s);
  launch::JsonMessageConnection coordinator(listener.accept(5s), 5s);
  plan::TrialRequest request;
  request.training.ranks = 2;
  request.envelope.rendezvous = (folder.path / "meeting").string();
  coordinator.send({{"start", 1}, {"kind", "run"}, {"request", request}, {"limit_ms", 1000}, {"grace_ms", 0}});
  const launch::LauncherRankEnvironment launch{"torchrun", 1, 2, 0, 1, "10.0.0.1", 0, ""};
  CHECK_THROWS_WITH_AS(run_worker(launch, own, {}, 5s), "rank 0 is lost: it sent no rendezvous address", Error);
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("the other ranks end with an error if rank 0 ends early") {
  Launched launched;
  launched.workers.reset();  // reports a failure
  for (auto& code : launched.codes) CHECK(code.get() == 1);
}

// Rank 1 of two, which does not behave as memtune does.
struct Strange {
  explicit Strange(std::chrono::milliseconds timeout = 5s) {
    { launch.port = launch::TcpListener(true, 0).port(); }
    auto coming = std::async(std::launch::async, [&] {
      launch::LauncherRankEnvironment own = launch;
      own.rank = 1;
      return join_coordinator(own, {"", timeout});
    });
    workers = accept_workers(launch, {"", timeout});
    connection = coming.get();
  }

  // Returns the message that starts a trial.
  nlohmann::json order() {
    nlohmann::json message;
    while (!message.contains("start")) REQUIRE(connection->receive(message, 5s));
    return message;
  }

  // Returns rank 0's error about this rank, or "" if there is none.
  std::string lost() {
    for (int i = 0; i < 100; ++i) {
      try {
        workers->check();
      } catch (const Error& error) {
        return error.what();
      }
      std::this_thread::sleep_for(50ms);
    }
    return "";
  }

  launch::LauncherRankEnvironment launch{"torchrun", 0, 2, 0, 2, "127.0.0.1", 0, ""};
  std::unique_ptr<WorkerCoordinator> workers;
  std::unique_ptr<launch::JsonMessageConnection> connection;
};

TEST_CASE("a rank that ended or is silent is reported with its rank") {
  const std::string who = "rank 1: its memtune on " + launch::host_name() + " is lost: ";
  Strange gone;
  gone.connection.reset();
  CHECK(gone.lost() == who + "it has ended");
  CHECK_THROWS_WITH_AS(gone.workers->all_have_reference("x"), (who + "it has ended").c_str(), Error);
  Strange silent(1s);
  CHECK(silent.lost() == who + "it has not responded for 1 s");
}

TEST_CASE("a rank that reads nothing does not block rank 0 for the others") {
  std::vector<std::unique_ptr<launch::JsonMessageConnection>> others;
  std::vector<WorkerConnectionAndAddress> each(2);
  for (WorkerConnectionAndAddress& follower : each) {
    const launch::TcpListener listener(true, 0);
    others.push_back(
        std::make_unique<launch::JsonMessageConnection>(launch::connect("127.0.0.1", listener.port(), 5s), 5s));
    follower = {std::make_unique<launch::JsonMessageConnection>(listener.accept(5s), 3s), "there", "127.0.0.1"};
  }
  WorkerCoordinator workers(std::move(each), "127.0.0.1", 3s);
  auto stuck = std::async(std::launch::async, [&] {
    return workers.start(1, {{"kind", std::string(16 << 20, 'x')}}, {"/nowhere/log", ""}, system_files());
  });
  nlohmann::json message;
  const auto end = std::chrono::steady_clock::now() + 2s;
  int beats = 0;
  while (std::chrono::steady_clock::now() < end) {
    others[1]->send({{"beat", true}});
    beats += others[1]->receive(message, 200ms) ? 1 : 0;
  }
  CHECK(beats >= 2);
  CHECK(stuck.wait_for(0s) == std::future_status::timeout);
  const auto trial = stuck.get();
  CHECK_FALSE(trial->poll_output(10ms));
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

TEST_CASE("a rank that floods rank 0 is read only as far as rank 0 uses its messages") {
  for (const size_t size : {size_t{1}, size_t{7} << 20}) {
    CAPTURE(size);
    Strange strange(2s);
    const int64_t before = resident_bytes();
    const nlohmann::json message = {{"of", 1}, {"x", std::string(size, 'x')}};
    std::atomic<int> sent = 0;
    auto flood = std::async(std::launch::async, [&] {
      try {
        while (true) strange.connection->send(message), ++sent;
      } catch (const launch::PeerLostError&) {  // rank 0 reads no more, or has ended
      }
    });
    std::this_thread::sleep_for(1s);
    CHECK(resident_bytes() - before < int64_t{150} << 20);  // the flooding end is in this process too
    CHECK(sent < 100'000);
    const auto start = std::chrono::steady_clock::now();
    strange.workers->check();  // a rank that is ahead is not lost
    strange.workers.reset();
    CHECK(std::chrono::steady_clock::now() - start < 2s);
    flood.get();
  }
}

TEST_CASE("a rank that answers another question does not block rank 0") {
  Strange strange(1s);
  auto flood = std::async(std::launch::async, [&] {
    try {
      while (true) strange.connection->send({{"of", 1}});
    } catch (const launch::PeerLostError&) {
    }
  });
  CHECK_THROWS_WITH_AS(strange.workers->all_have_reference("x"), "rank 1: its memtune does not answer", Error);
  strange.workers.reset();
  flood.get();
}

TEST_CASE("an invalid answer is a failure of its rank") {
  Strange strange;
  const auto trial = strange.workers->start(1, {{"kind", "run"}}, {"/nowhere/log", ""}, system_files());
  const nlohmann::json order = strange.order();
  strange.connection->send({{"done", true}, {"of", 77}, {"answer", 1}});  // of another trial
  strange.connection->send({{"done", true}, {"of", order["start"]}, {"answer", 1}});
  while (trial->poll_output(50ms)) {
  }
  REQUIRE(std::holds_alternative<ProcessFailure>(trial->answer()));
  CHECK(std::get<ProcessFailure>(trial->answer()).reason == "its answer is invalid");
}

TEST_CASE("the log and costs of a rank are not written through links in the run folder") {
  const test::ScratchFolder folder, elsewhere;
  std::filesystem::create_directory_symlink(elsewhere.path, folder.path / "link");
  ConfinedFileSystem own(folder.path);
  for (const bool linked : {true, false}) {
    CAPTURE(linked);
    const std::filesystem::path place = linked ? folder.path / "link" : folder.path;
    Strange strange;
    const auto trial = strange.workers->start(1, {{"kind", "run"}}, {place / "log", place / "costs"}, own);
    const nlohmann::json id = strange.order()["start"];
    for (const char* part : {"te", "xt"}) strange.connection->send({{"costs", part}, {"of", id}});
    strange.connection->send({{"done", true}, {"of", id}, {"answer", 1}, {"others", false}, {"log", "text"}});
    while (trial->poll_output(50ms)) {
    }
    for (const char* name : {"log", "costs"}) CHECK(test::slurp(folder.path / name) == (linked ? "" : "text"));
  }
  CHECK(std::filesystem::is_empty(elsewhere.path));
}

TEST_CASE("reference gradients count only if all ranks have them") {
  Launched launched;
  const std::string reference = (launched.folder.path / "reference.bin").string();
  CHECK_FALSE(launched.workers->all_have_reference(reference));
  launched.run();
  CHECK(launched.workers->all_have_reference(reference));
  CHECK_FALSE(launched.workers->all_have_reference("other.bin"));
}

TEST_CASE("a rank on rank 0's machine is reached by the address that other machines use") {
  const auto follower = [](const std::string& address) {
    const launch::TcpListener listener(true, 0);
    FileDescriptor socket = launch::connect("127.0.0.1", listener.port(), 5s);
    return WorkerConnectionAndAddress{std::make_unique<launch::JsonMessageConnection>(std::move(socket), 1s), "host",
                                      address};
  };
  std::vector<WorkerConnectionAndAddress> others;
  for (const char* address : {"127.0.0.1", "10.0.0.1", "10.0.0.2"}) others.push_back(follower(address));
  const WorkerCoordinator workers(std::move(others), "10.0.0.1", 5s);
  CHECK(workers.size() == 4);
  CHECK(workers.address(0) == "10.0.0.1");
  CHECK(workers.address(1) == "10.0.0.1");
  CHECK(workers.address(3) == "10.0.0.2");
  CHECK(workers.on_this_machine() == 3);
}

TEST_CASE("missing ranks are named and a foreign connection does not count as a rank") {
  launch::LauncherRankEnvironment launch{"srun", 0, 3, 0, 3, "127.0.0.1", 0, ""};
  { launch.port = launch::TcpListener(true, 0).port(); }
  auto stranger = std::async(std::launch::async, [&] {
    launch::JsonMessageConnection connection(launch::connect("127.0.0.1", launch.port, 2s), 2s);
    connection.send({{"GET", "/"}});
    std::this_thread::sleep_for(1s);
  });
  CHECK_THROWS_WITH_AS(accept_workers(launch, {"", 2s}),
                       "rank 1, rank 2 did not connect to rank 0 within 2 s; --rank-timeout says how long to wait, "
                       "--ranks 1 runs this rank alone",
                       Error);
}

}  // namespace
}  // namespace memtune::sweep::worker_group_test
