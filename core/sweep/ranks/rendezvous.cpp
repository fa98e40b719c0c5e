#include "core/sweep/ranks/rendezvous.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/sweep/launch/socket.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {
namespace {

using launch::LaunchInfo;
using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Timeout of the first message on a connection. A peer that is late connects again.
constexpr milliseconds kHello{1000};
constexpr milliseconds kRendezvousTick{500};
constexpr const char* kLoopback = "127.0.0.1";

struct Place {
  std::string host;
  int port = 0;
  std::string token;  // proves that a peer could read the agent's store
};

std::string random_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += std::to_string(random()) + ".";
  return token;
}

// Publishes `text` as rank 0, or reads it with "". memtune-trial does it, because the store needs LibTorch.
std::string announce(const LaunchInfo& launch, milliseconds timeout, const std::string& text) {
  std::vector<std::string> words = {"announce",
                                    launch.host,
                                    std::to_string(launch.port),
                                    launch.store_prefix,
                                    std::to_string(launch.rank),
                                    std::to_string(timeout.count())};
  if (!text.empty()) words.push_back(text);
  const TrialAnswer answer = run_trial_process({words, "", timeout + milliseconds(10'000), {}});
  if (const auto* there = std::get_if<RendezvousEntry>(&answer)) return there->text;
  const auto* failure = std::get_if<ProcessFailure>(&answer);
  throw Error("the store of torchrun's agent at " + launch.host + ":" + std::to_string(launch.port) +
              " does not work: " + (failure ? failure->reason : "memtune-trial gave another answer"));
}

Place parse_place(const std::string& text) {
  const std::vector<std::string> parts = split(text, ' ');
  if (parts.size() != 3) throw Error("'" + text + "' in the store of torchrun's agent is not memtune's");
  return {parts[0], static_cast<int>(parse_integer(parts[1], "port")), parts[2]};
}

json hello(const LaunchInfo& launch, const RendezvousOptions& settings, const std::string& token) {
  return {{"hello", "memtune"}, {"version", MEMTUNE_VERSION}, {"rank", launch.rank},        {"size", launch.size},
          {"token", token},     {"words", settings.words},    {"host", launch::host_name()}};
}

// Rank 0 waits for the other ranks.
class Gathering {
 public:
  Gathering(const LaunchInfo& launch, const RendezvousOptions& settings)
      : launch_(launch),
        settings_(settings),
        listener_(launch.on_one_machine(), launch.store_prefix.empty() ? launch.port : 0),
        workers_(static_cast<size_t>(launch.size - 1)) {}

  std::unique_ptr<WorkerGroup> run() {
    if (!launch_.store_prefix.empty()) leave_word();
    const auto end = Clock::now() + settings_.timeout;
    for (int missing = launch_.size - 1; missing > 0;) {
      if (Clock::now() >= end) throw Error(who_is_missing());
      FileDescriptor socket = listener_.accept(kRendezvousTick);
      if (socket.get() >= 0 && take(std::move(socket))) --missing;
      for (const WorkerConnection& worker : workers_)
        if (worker.connection) send(worker, {{"beat", true}});
    }
    return std::make_unique<WorkerGroup>(std::move(workers_), own_, settings_.timeout);
  }

 private:
  void leave_word() {
    const std::string seen = launch::address_towards(launch_.host, launch_.port);
    const std::string reached = seen.empty() || launch::is_loopback(seen) ? launch_.host : seen;
    const std::string host = launch_.on_one_machine() ? kLoopback : reached;
    token_ = random_token();
    announce(launch_, settings_.timeout, host + " " + std::to_string(listener_.port()) + " " + token_);
  }

  // Returns false if the peer is not of this launch.
  bool take(FileDescriptor socket) {
    WorkerConnection worker;
    worker.address = launch::peer_address(socket.get());
    const std::string own = launch::local_address(socket.get());
    worker.connection = std::make_unique<launch::Connection>(std::move(socket), settings_.timeout);
    json said;
    try {
      if (!worker.connection->receive(said, kHello) || said.value("hello", "") != "memtune" ||
          said.value("token", "") != token_)
        return false;
      worker.host = said.at("host").get<std::string>();
      check(said, worker);
    } catch (const launch::PeerLostError&) {
      return false;
    } catch (const json::exception&) {
      return false;
    }
    if (!launch::is_loopback(own)) own_ = own;
    send(worker, {{"welcome", true}});
    workers_[said.at("rank").get<size_t>() - 1] = std::move(worker);
    return true;
  }

  static void send(const WorkerConnection& worker, const json& message) try {
    worker.connection->send(message);
  } catch (const launch::PeerLostError&) {  // the next start of a trial reports it
  }

  void check(const json& said, const WorkerConnection& worker) const {
    const int64_t rank = whole_at(said, "rank");
    const std::string who = "rank " + std::to_string(rank) + " on " + worker.host;
    std::string why;
    if (said.at("version") != MEMTUNE_VERSION)
      why = who + " is memtune " + said.at("version").get<std::string>() + ", rank 0 is " MEMTUNE_VERSION;
    else if (said.at("size") != launch_.size)
      why = who + " is one of " + print_json(said.at("size")) + " ranks, rank 0 one of " + std::to_string(launch_.size);
    else if (rank < 1 || rank >= launch_.size)
      why = who + ": there are ranks 0 to " + std::to_string(launch_.size - 1);
    else if (workers_[static_cast<size_t>(rank - 1)].connection)
      why = who + " connected twice; first on " + workers_[static_cast<size_t>(rank - 1)].host;
    else if (said.at("words") != settings_.words)
      why = who + " was started by another command: " + said.at("words").get<std::string>();
    if (why.empty()) return;
    send(worker, {{"refused", why}});
    throw UsageError(why);
  }

  std::string who_is_missing() const {
    constexpr size_t kNamed = 8;
    std::vector<std::string> missing;
    for (size_t i = 0; i < workers_.size(); ++i)
      if (!workers_[i].connection) missing.push_back("rank " + std::to_string(i + 1));
    const size_t count = missing.size();
    if (count > kNamed) {
      missing.resize(kNamed);
      missing.push_back(std::to_string(count - kNamed) + " more");
    }
    return join(missing, ", ") + " did not connect to rank 0 within " + seconds_text(settings_.timeout) +
           "; --rank-timeout says how long to wait, --ranks 1 runs this rank alone";
  }

  const LaunchInfo& launch_;
  const RendezvousOptions& settings_;
  const launch::TcpListener listener_;
  std::string token_, own_ = kLoopback;
  std::vector<WorkerConnection> workers_;
};

}  // namespace

std::unique_ptr<WorkerGroup> accept_workers(const LaunchInfo& launch, const RendezvousOptions& settings) {
  return Gathering(launch, settings).run();
}

std::unique_ptr<launch::Connection> join_coordinator(const LaunchInfo& launch, const RendezvousOptions& settings) {
  const auto end = Clock::now() + settings.timeout;
  Place place{launch.on_one_machine() ? kLoopback : launch.host, launch.port, ""};
  if (!launch.store_prefix.empty()) place = parse_place(announce(launch, settings.timeout, ""));
  const std::string where = place.host + ":" + std::to_string(place.port);
  // A memtune of the previous command may still listen there. It closes the connection, and the loop tries again.
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    FileDescriptor socket = launch::connect(place.host, place.port, std::max(left, milliseconds(0)));
    if (socket.get() < 0)
      throw Error("rank 0 cannot be reached: nothing listens at " + where + " within " +
                  seconds_text(settings.timeout));
    auto connection = std::make_unique<launch::Connection>(std::move(socket), settings.timeout);
    try {
      connection->send(hello(launch, settings, place.token));
      json answer;
      if (!connection->receive(answer, std::max(left, milliseconds(0))))
        throw Error("the program that listens at " + where + " is not memtune's rank 0");
      if (answer.contains("refused")) throw UsageError("rank 0 refuses this one: " + print_json(answer.at("refused")));
      if (answer.contains("welcome")) return connection;
    } catch (const launch::PeerLostError&) {
    }
    std::this_thread::sleep_for(kRendezvousTick);
  }
}

}  // namespace memtune::sweep
