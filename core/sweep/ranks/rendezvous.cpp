#include "core/sweep/ranks/rendezvous.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/sweep/launch/secret.h"
#include "core/sweep/launch/socket.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {
namespace {

using launch::LauncherRankEnvironment;
using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kHello{5000};  // until a connection has identified itself; a peer that is late connects again
constexpr milliseconds kRendezvousTick{500};
constexpr size_t kHelloBytes = size_t{128} << 10;  // of one message
constexpr size_t kWordsBytes = size_t{16} << 10;   // of a command line
constexpr size_t kMaxStrangers = 256;              // connections that have not identified themselves
constexpr size_t kMaxNotes = 8;
constexpr size_t kMaxNoteBytes = 300;
constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kSecretVariable = "MEMTUNE_RANK_SECRET";

// memtune's version and its engine's PyTorch release, which all ranks have to share.
std::string own_build() {
  const char* release = std::getenv("MEMTUNE_ENGINE");  // set by the wheel, where one program has an engine for each
  return release && *release ? std::string(MEMTUNE_VERSION " for PyTorch ") + release : MEMTUNE_BUILD;
}

struct Place {
  std::string host;
  int port = 0;
  std::string token;  // shows that a peer could read the agent's store
};

// Publishes `text` as rank 0, or reads it with "". memtune-trial does it, because the store needs LibTorch.
std::string announce(const LauncherRankEnvironment& launch, milliseconds timeout, const std::string& text) {
  std::vector<std::string> words = {"announce",
                                    launch.host,
                                    std::to_string(launch.port),
                                    launch.store_prefix,
                                    std::to_string(launch.rank),
                                    std::to_string(timeout.count())};
  if (!text.empty()) words.push_back(text);
  const TrialAnswer answer = run_trial_process({words, "", timeout + milliseconds(10'000), {}});
  if (const auto* there = std::get_if<RankZeroTorchrunStoreText>(&answer)) return there->text;
  const auto* failure = std::get_if<ProcessFailure>(&answer);
  throw Error("the store of torchrun's agent at " + launch.host + ":" + std::to_string(launch.port) +
              " does not work: " + (failure ? failure->reason : "memtune-trial gave another answer"));
}

Place parse_place(const std::string& text) {
  const std::vector<std::string> parts = split(text, ' ');
  if (parts.size() != 3) throw Error("'" + text + "' in the store of torchrun's agent is not memtune's");
  return {parts[0], static_cast<int>(parse_integer(parts[1], "port")), parts[2]};
}

// Ranks on one machine meet without the agent's store.
bool uses_store(const LauncherRankEnvironment& launch) {
  return !launch.store_prefix.empty() && !launch.on_one_machine();
}

// Of the local socket. Port and store prefix differ between launches.
std::string local_name(const LauncherRankEnvironment& launch) {
  const std::string place = std::to_string(launch.port) + " " + launch.store_prefix;
  return "memtune-ranks-" + std::to_string(::geteuid()) + "-" + hash_hex(place);
}

// A command line that may be too long for a message.
std::string short_words(const std::string& words) {
  if (words.size() <= kWordsBytes) return words;
  return words.substr(0, kWordsBytes) + " ... " + hash_hex(words);
}

std::string covered_by_coordinator(const std::string& nonces) { return "rank 0\n" + nonces; }

std::string covered_by_worker(const std::string& nonces, json introduction) {
  introduction.erase("proof");
  return "another rank\n" + nonces + "\n" + print_json(introduction);
}

// Processes of one mount namespace see the same files. "": unknown.
std::string mount_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/mnt", ignored).string();
}

// A peer that is not another rank of this launch; the message says why.
class StrangerError : public Error {
 public:
  using Error::Error;
};

// Rank 0's side of a connection that has not identified itself yet.
struct Stranger {
  WorkerConnectionAndAddress worker;
  Clock::time_point until;
  std::string nonces;  // of both ends; "" before the first message
};

// Rank 0 waits for the other ranks.
class Gathering {
 public:
  Gathering(const LauncherRankEnvironment& launch, const RendezvousSharedCommandLineAndTimeout& settings)
      : launch_(launch),
        settings_(settings),
        secret_(launch.secret),
        workers_(static_cast<size_t>(launch.size - 1)),
        missing_(launch.size - 1) {
    if (launch.on_one_machine())
      local_ = launch::listen_here(local_name(launch));
    else
      tcp_.emplace(false, launch.store_prefix.empty() ? launch.port : 0);
  }

  std::unique_ptr<WorkerCoordinator> run() {
    if (uses_store(launch_)) leave_word();
    if (!launch_.on_one_machine() && secret_.empty())
      settings_.note("warning: the ranks share no secret: a process that reaches port " + std::to_string(tcp_->port()) +
                     " of this machine can speak for a rank; set " + kSecretVariable);
    const auto end = Clock::now() + settings_.timeout;
    for (Clock::time_point beat = Clock::now(); missing_ > 0;) {
      if (Clock::now() >= end) throw Error(missing_text());
      wait();
      accept();
      hear();
      if (Clock::now() < beat) continue;
      beat = Clock::now() + kRendezvousTick;
      for (const WorkerConnectionAndAddress& worker : workers_)
        if (worker.connection && worker.connection->is_writable()) send(worker, {{"beat", true}});
    }
    return std::make_unique<WorkerCoordinator>(std::move(workers_), own_, settings_.timeout, shares_files_);
  }

 private:
  int listener() const { return tcp_ ? tcp_->descriptor() : local_.get(); }

  void leave_word() {
    const std::string seen = launch::address_towards(launch_.host, launch_.port);
    const std::string reached = seen.empty() || launch::is_loopback(seen) ? launch_.host : seen;
    const std::string token = launch::make_nonce();
    secret_ += token;
    announce(launch_, settings_.timeout, reached + " " + std::to_string(tcp_->port()) + " " + token);
  }

  void wait() const {
    std::vector<pollfd> sockets = {{listener(), POLLIN, 0}};
    for (const Stranger& each : strangers_) sockets.push_back({each.worker.connection->socket(), POLLIN, 0});
    ::poll(sockets.data(), sockets.size(), static_cast<int>(kRendezvousTick.count()));
  }

  void accept() {
    for (size_t i = 0; i < kMaxStrangers; ++i) {
      FileDescriptor socket = launch::accept_now(listener());
      if (socket.get() < 0) return;
      if (!tcp_ && !launch::is_of_this_user(socket.get())) {
        note("a connection of another user was refused");
        continue;
      }
      // Ranks identify themselves at once, so that the oldest are none.
      if (strangers_.size() == kMaxStrangers) strangers_.pop_front();
      Stranger& stranger = strangers_.emplace_back();
      stranger.until = Clock::now() + kHello;
      stranger.worker.address = tcp_ ? launch::peer_address(socket.get()) : kLoopback;
      stranger.worker.connection =
          std::make_unique<launch::JsonMessageConnection>(std::move(socket), settings_.timeout);
      stranger.worker.connection->set_longest(kHelloBytes);
    }
  }

  void hear() {
    std::erase_if(strangers_, [&](Stranger& each) {
      try {
        return hear(each);
      } catch (const StrangerError& error) {
        refused_ = "; " + std::string(error.what()).substr(0, kMaxNoteBytes);
        note(error.what());
        send(each.worker, {{"refused", error.what()}});
      } catch (const launch::PeerLostError& error) {
        const char* question = each.nonces.empty() ? "" : "; have all ranks the same MEMTUNE_RANK_SECRET?";
        note("a connection from " + each.worker.address + " was closed: " + error.what() + question);
      } catch (const json::exception&) {
        note("a connection from " + each.worker.address + " was closed: it is not memtune's");
      }
      return true;
    });
  }

  // Returns true if it is no stranger any more.
  bool hear(Stranger& from) {
    json message;
    while (from.worker.connection->receive(message)) {
      if (from.nonces.empty()) {
        challenge(from, message);
        continue;
      }
      take_seat(from, message);
      return true;
    }
    if (Clock::now() < from.until) return false;
    throw launch::PeerLostError("it did not identify itself within " + seconds_text(kHello));
  }

  void challenge(Stranger& to, const json& hello) {
    if (hello.at("hello") != "memtune") throw launch::PeerLostError("it is not memtune's");
    const std::string nonce = launch::make_nonce();
    to.nonces = nonce + " " + hello.at("nonce").get<std::string>();
    to.worker.connection->send({{"nonce", nonce},
                                {"proof", launch::prove(secret_, covered_by_coordinator(to.nonces))},
                                {"version", own_build()}});
    if (hello.at("version") != own_build())
      throw StrangerError("a rank on " + to.worker.address + " is memtune " + hello.at("version").get<std::string>() +
                          ", rank 0 is " + own_build());
  }

  void take_seat(Stranger& from, const json& said) {
    if (!launch::is_proof(said.at("proof").get<std::string>(), secret_, covered_by_worker(from.nonces, said)))
      throw StrangerError("a rank on " + from.worker.address + " does not know the secret of rank 0's launch (" +
                          kSecretVariable + ")");
    from.worker.host = said.at("host").get<std::string>();
    const int64_t rank = whole_at(said, "rank");
    if (const std::string why = why_refused(said, rank, from.worker.host); !why.empty()) throw StrangerError(why);
    shares_files_ &= said.at("mounts") == mounts_;
    const std::string own = launch::local_address(from.worker.connection->socket());
    if (tcp_ && !launch::is_loopback(own)) own_ = own;
    send(from.worker, {{"welcome", true}});
    workers_[static_cast<size_t>(rank - 1)] = std::move(from.worker);
    --missing_;
  }

  static void send(const WorkerConnectionAndAddress& worker, const json& message) try {
    worker.connection->send(message);
  } catch (const launch::PeerLostError&) {  // the next start of a trial reports it
  }

  std::string why_refused(const json& said, int64_t rank, const std::string& host) const {
    const std::string who = "rank " + std::to_string(rank) + " on " + host;
    if (said.at("size") != launch_.size)
      return who + " is one of " + print_json(said.at("size")) + " ranks, rank 0 one of " +
             std::to_string(launch_.size);
    if (rank < 1 || rank >= launch_.size) return who + ": there are ranks 0 to " + std::to_string(launch_.size - 1);
    if (const WorkerConnectionAndAddress& first = workers_[static_cast<size_t>(rank - 1)]; first.connection)
      return who + " connected twice; first on " + first.host;
    if (const auto words = said.at("words").get<std::string>(); words != short_words(settings_.words))
      return who + " was started by another command: " + words;
    return "";
  }

  void note(const std::string& line) {
    if (notes_.size() == kMaxNotes || !notes_.insert(line.substr(0, kMaxNoteBytes)).second) return;
    settings_.note("note: " + line.substr(0, kMaxNoteBytes));
    if (notes_.size() == kMaxNotes) settings_.note("note: no more connections that were closed will be listed");
  }

  std::string missing_text() const {
    constexpr size_t kNamed = 8;
    std::vector<std::string> missing;
    for (size_t i = 0; i < workers_.size(); ++i)
      if (!workers_[i].connection) missing.push_back("rank " + std::to_string(i + 1));
    const size_t count = missing.size();
    if (count > kNamed) {
      missing.resize(kNamed);
      missing.push_back(std::to_string(count - kNamed) + " more");
    }
    return join(missing, ", ") + " did not connect to rank 0 within " + seconds_text(settings_.timeout) + refused_ +
           "; --rank-timeout says how long to wait, --ranks 1 runs this rank alone";
  }

  const LauncherRankEnvironment& launch_;
  const RendezvousSharedCommandLineAndTimeout& settings_;
  std::optional<launch::TcpListener> tcp_;
  FileDescriptor local_;  // if there is no tcp_
  std::string secret_, own_ = kLoopback;
  const std::string mounts_ = mount_namespace();
  bool shares_files_ = launch_.on_one_machine() && !mounts_.empty();  // all ranks see the same files
  std::vector<WorkerConnectionAndAddress> workers_;
  int missing_;
  std::deque<Stranger> strangers_;
  std::set<std::string> notes_;
  std::string refused_;  // the last rank that was refused, for the message if one is missing
};

// The other ranks' side.
class Joining {
 public:
  Joining(const LauncherRankEnvironment& launch, const RendezvousSharedCommandLineAndTimeout& settings)
      : launch_(launch), settings_(settings), end_(Clock::now() + settings.timeout) {
    if (uses_store(launch)) place_ = parse_place(announce(launch, settings.timeout, ""));
  }

  // A memtune of the previous command, or another program, may listen there for a while.
  std::unique_ptr<launch::JsonMessageConnection> run() {
    while (true) {
      auto connection = std::make_unique<launch::JsonMessageConnection>(reach(), settings_.timeout);
      try {
        if (introduce(*connection)) return connection;
      } catch (const launch::PeerLostError&) {
      } catch (const json::exception&) {
      }
      if (left() == milliseconds(0)) throw Error("rank 0 cannot be reached: " + where() + " " + why_);
      std::this_thread::sleep_for(std::min(kRendezvousTick, left()));
    }
  }

 private:
  milliseconds left() const {
    return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(end_ - Clock::now()));
  }

  std::string where() const {
    if (launch_.on_one_machine()) return "the local socket @" + local_name(launch_);
    return place_.host + ":" + std::to_string(place_.port);
  }

  FileDescriptor reach() const {
    FileDescriptor socket = launch_.on_one_machine() ? launch::connect_here(local_name(launch_), left())
                                                     : launch::connect(place_.host, place_.port, left());
    if (socket.get() >= 0) return socket;
    throw Error("rank 0 cannot be reached: nothing" + std::string(launch_.on_one_machine() ? " of this user" : "") +
                " listens at " + where() + " within " + seconds_text(settings_.timeout));
  }

  // Returns false if that is not rank 0, which may listen there later.
  bool introduce(launch::JsonMessageConnection& to) {
    json answer;
    const std::string nonce = launch::make_nonce(), secret = launch_.secret + place_.token;
    to.set_longest(kHelloBytes);
    to.send({{"hello", "memtune"}, {"version", own_build()}, {"nonce", nonce}});
    if (!to.receive(answer, std::min(kHello, left()))) return false;
    const std::string nonces = answer.at("nonce").get<std::string>() + " " + nonce;
    why_ = std::string("does not know the secret of this rank's launch (") + kSecretVariable + ")";
    if (!launch::is_proof(answer.at("proof").get<std::string>(), secret, covered_by_coordinator(nonces))) return false;
    if (const auto version = answer.at("version").get<std::string>(); version != own_build())
      throw UsageError("rank 0 is memtune " + version + ", this one is " + own_build());
    to.send(introduction(secret, nonces));
    if (!to.receive(answer, std::min(kHello, left()))) return false;
    if (answer.contains("refused")) throw UsageError("rank 0 refuses this one: " + print_json(answer.at("refused")));
    to.set_longest(kRequestBytes);
    return answer.contains("welcome");
  }

  json introduction(const std::string& secret, const std::string& nonces) const {
    json all = {{"rank", launch_.rank},
                {"size", launch_.size},
                {"words", short_words(settings_.words)},
                {"host", launch::host_name()},
                {"mounts", mount_namespace()}};
    all["proof"] = launch::prove(secret, covered_by_worker(nonces, all));
    return all;
  }

  const LauncherRankEnvironment& launch_;
  const RendezvousSharedCommandLineAndTimeout& settings_;
  const Clock::time_point end_;
  Place place_{launch_.host, launch_.port, ""};
  std::string why_ = "is not memtune's rank 0";  // the last attempt failed
};

}  // namespace

std::unique_ptr<WorkerCoordinator> accept_workers(const LauncherRankEnvironment& launch,
                                                  const RendezvousSharedCommandLineAndTimeout& settings) {
  return Gathering(launch, settings).run();
}

std::unique_ptr<launch::JsonMessageConnection> join_coordinator(const LauncherRankEnvironment& launch,
                                                                const RendezvousSharedCommandLineAndTimeout& settings) {
  return Joining(launch, settings).run();
}

}  // namespace memtune::sweep
