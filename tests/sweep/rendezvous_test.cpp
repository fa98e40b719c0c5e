// Anyone can connect to the port of rank 0, and another user can listen in its place. Neither may end the run, take a
// seat, or learn more than that memtune is there.
#include "core/sweep/ranks/rendezvous.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/sweep/launch/secret.h"
#include "core/sweep/launch/socket.h"
#include "tests/support/run_program.h"
using namespace std::chrono_literals;

namespace memtune::sweep::rendezvous_test {
namespace {

using launch::JsonMessageConnection;
using nlohmann::json;

constexpr const char* kWords = "profile --model tiny";
constexpr uid_t kOtherUser = 65534;

// Ranks that a launcher started. 0.0.0.0 is this machine, but not a name for the loopback device.
launch::LauncherRankEnvironment launch_of(int rank, int port, const std::string& secret, int size = 2) {
  launch::LauncherRankEnvironment launch{"torchrun", rank, size, 0, 1, "0.0.0.0", port, ""};
  launch.secret = secret;
  return launch;
}

int free_port() { return launch::TcpListener(true, 0).port(); }

// Rank 0 in a thread.
struct Coordinator {
  explicit Coordinator(const launch::LauncherRankEnvironment& of, std::chrono::milliseconds timeout = 10s)
      : launch(of) {
    workers = std::async(std::launch::async, [this, timeout] {
      return accept_workers(launch, {kWords, timeout, [this](const std::string& line) { notes.push_back(line); }});
    });
  }

  bool noted(const std::string& text) const {
    for (const std::string& line : notes)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }

  launch::LauncherRankEnvironment launch;
  std::vector<std::string> notes;  // to be read after workers.get()
  std::future<std::unique_ptr<WorkerCoordinator>> workers;
};

std::unique_ptr<JsonMessageConnection> join(const launch::LauncherRankEnvironment& launch,
                                            std::chrono::milliseconds timeout = 10s) {
  return join_coordinator(launch, {kWords, timeout});
}

// A peer that speaks the protocol and knows what `secret` says.
struct Peer {
  explicit Peer(int port) : connection(launch::connect("127.0.0.1", port, 5s), 5s) {}

  json introduce(json own, const std::string& secret) {
    json answer;
    connection.send({{"hello", "memtune"}, {"version", MEMTUNE_BUILD}, {"nonce", "mine"}});
    REQUIRE(connection.receive(answer, 5s));
    const std::string nonces = answer.at("nonce").get<std::string>() + " mine";
    own["proof"] = launch::prove(secret, "another rank\n" + nonces + "\n" + own.dump());
    connection.send(own);
    REQUIRE(connection.receive(answer, 5s));
    return answer;
  }

  JsonMessageConnection connection;
};

json introduction() { return {{"rank", 1}, {"size", 2}, {"words", kWords}, {"host", "evil"}, {"mounts", ""}}; }

json with(const char* key, const json& value) {
  json changed = introduction();
  changed[key] = value;
  return changed;
}

TEST_CASE("a wrong introduction ends only its own connection") {
  const int port = free_port();
  Coordinator coordinator(launch_of(0, port, "right"));
  std::vector<std::unique_ptr<Peer>> silent;
  for (int i = 0; i < 30; ++i) silent.push_back(std::make_unique<Peer>(port));
  for (const json& wrong : {with("words", "profile --model other"), with("size", 3), with("rank", 0), with("rank", 2)})
    CHECK_MESSAGE(Peer(port).introduce(wrong, "right").contains("refused"), wrong.dump());
  CHECK(Peer(port).introduce(introduction(), "").contains("refused"));
  CHECK(Peer(port).introduce(introduction(), "wrong").contains("refused"));
  Peer other(port), foreign(port), endless(port);
  other.connection.send({{"hello", "memtune"}, {"version", "0.0"}, {"nonce", ""}});
  foreign.connection.send({{"GET", "/"}});
  try {
    while (true) endless.connection.send({{"hello", std::string(60'000, 'x')}});
  } catch (const launch::PeerLostError&) {
  }
  const auto start = std::chrono::steady_clock::now();
  const auto rank = join(launch_of(1, port, "right"));
  CHECK(std::chrono::steady_clock::now() - start < 2s);  // less than a silent peer has
  CHECK(coordinator.workers.get()->size() == 2);
  CHECK(coordinator.notes.size() <= 9);
  CHECK(coordinator.noted("rank 1 on evil was started by another command: profile --model other"));
  CHECK(coordinator.noted("does not know the secret"));
  CHECK_FALSE(coordinator.noted("warning"));
}

TEST_CASE("without a secret there is a warning, and refused connections still end nothing") {
  const int port = free_port();
  Coordinator coordinator(launch_of(0, port, ""));
  CHECK(Peer(port).introduce(with("size", 9), "").contains("refused"));
  const auto rank = join(launch_of(1, port, ""));
  coordinator.workers.get();
  CHECK(coordinator.noted("warning: the ranks share no secret"));
}

TEST_CASE("a seat is given once") {
  const int port = free_port();
  Coordinator coordinator(launch_of(0, port, "right", 3));
  json own = with("size", 3);
  Peer first(port);
  CHECK(first.introduce(own, "right").contains("welcome"));
  CHECK(Peer(port).introduce(own, "right").contains("refused"));
  own["rank"] = 2;
  Peer second(port);
  CHECK(second.introduce(own, "right").contains("welcome"));
  CHECK(coordinator.workers.get()->size() == 3);
}

TEST_CASE("ranks with different secrets do not find each other, and both say why") {
  const int port = free_port();
  Coordinator coordinator(launch_of(0, port, "one"), 1s);
  CHECK_THROWS_WITH_AS(join(launch_of(1, port, "other"), 500ms),
                       ("rank 0 cannot be reached: 0.0.0.0:" + std::to_string(port) +
                        " does not know the secret of this rank's launch (MEMTUNE_RANK_SECRET)")
                           .c_str(),
                       Error);
  CHECK_THROWS_AS(coordinator.workers.get(), Error);
  CHECK(coordinator.noted("have all ranks the same MEMTUNE_RANK_SECRET?"));
}

TEST_CASE("a program in the place of rank 0 learns no command line") {
  const launch::TcpListener listener(true, 0);
  auto rank = std::async(std::launch::async, [&] { return join(launch_of(1, listener.port(), "secret"), 500ms); });
  JsonMessageConnection impostor(listener.accept(5s), 5s);
  json hello, more;
  REQUIRE(impostor.receive(hello, 5s));
  CHECK(hello.dump().find(kWords) == std::string::npos);
  CHECK(hello.dump().find("secret") == std::string::npos);
  const std::string guess = launch::prove("guess", "rank 0\nmine " + hello.at("nonce").get<std::string>());
  impostor.send({{"nonce", "mine"}, {"version", MEMTUNE_BUILD}, {"proof", guess}});
  CHECK_THROWS_AS(impostor.receive(more, 5s), launch::PeerLostError);
  CHECK_THROWS_AS(rank.get(), Error);
}

TEST_CASE("a rank of another version or another command gets the reason") {
  const int port = free_port();
  Coordinator coordinator(launch_of(0, port, ""), 1s);
  CHECK_THROWS_AS(join_coordinator(launch_of(1, port, ""), {"profile --model other", 1s}), UsageError);
  try {
    coordinator.workers.get();
    FAIL("a rank was missing");
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(message.find("rank 1 did not connect to rank 0 within 1 s; rank 1 on ") == 0);
    CHECK(message.find("was started by another command: profile --model other") != std::string::npos);
  }
}

TEST_CASE("a rank whose engine is of another PyTorch release gets the reason") {
  const int port = free_port();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("MEMTUNE_ENGINE", "2.99", 1);
    try {
      join_coordinator(launch_of(1, port, ""), {kWords, 10s});
    } catch (const UsageError& error) {
      ::_exit(std::string(error.what()).ends_with(" for PyTorch 2.99") ? 0 : 1);
    } catch (...) {
    }
    ::_exit(2);
  }
  Coordinator coordinator(launch_of(0, port, ""), 1s);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  try {
    coordinator.workers.get();
    FAIL("a rank was missing");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(" for PyTorch 2.99, rank 0 is ") != std::string::npos);
  }
}

// Runs `act` as another user, in a process of its own, and returns what it returned.
template <class Act>
int as_other_user(const Act& act) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setresuid(kOtherUser, kOtherUser, kOtherUser) == 0 ? act() : 99);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST_CASE("on one machine only processes of the same user are accepted, by either side") {
  if (::geteuid() != 0) return;  // only root can become another user
  const std::string name = "memtune-test-" + std::to_string(::getpid());
  {
    const FileDescriptor listener = launch::listen_here(name);
    CHECK_THROWS_AS(launch::listen_here(name), IoError);
    CHECK(as_other_user([&] { return launch::connect_here(name, 0ms).get() < 0 ? 1 : 0; }) == 1);
    const FileDescriptor stranger = launch::accept_now(listener.get());
    REQUIRE(stranger.get() >= 0);
    CHECK_FALSE(launch::is_of_this_user(stranger.get()));
    const FileDescriptor own = launch::connect_here(name, 1s);
    CHECK(own.get() >= 0);
    CHECK(launch::is_of_this_user(launch::accept_now(listener.get()).get()));
  }
  const int port = free_port();
  launch::LauncherRankEnvironment launch = launch_of(0, port, "");
  launch.local_size = launch.size;
  Coordinator coordinator(launch);
  launch.rank = 1;
  const std::string socket = "memtune-ranks-0-" + hash_hex(std::to_string(port) + " ");
  const FileDescriptor own = launch::connect_here(socket, 5s);  // silent
  REQUIRE(own.get() >= 0);
  CHECK(as_other_user([&] { return launch::connect_here(socket, 0ms).get() < 0 ? 1 : 0; }) == 1);
  const auto rank = join(launch);
  CHECK(coordinator.workers.get()->shares_files());
  CHECK(coordinator.notes == std::vector<std::string>{"note: a connection of another user was refused"});
  int ready[2], done[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(done) == 0);
  auto other = std::async(std::launch::async, [&] {
    return as_other_user([&] {
      const FileDescriptor listener = launch::listen_here(name);
      char byte = 0;
      return ::write(ready[1], "x", 1) == 1 && ::read(done[0], &byte, 1) == 1 ? 0 : 1;
    });
  });
  char byte = 0;
  CHECK(::read(ready[0], &byte, 1) == 1);
  CHECK(launch::connect_here(name, 100ms).get() < 0);
  CHECK(::write(done[1], "x", 1) == 1);
  CHECK(other.get() == 0);
  for (const int end : {ready[0], ready[1], done[0], done[1]}) ::close(end);
}

}  // namespace
}  // namespace memtune::sweep::rendezvous_test
