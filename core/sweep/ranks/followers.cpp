#include "core/sweep/ranks/followers.h"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/sweep/launch/socket.h"
#include "core/sweep/trials/frame_reader.h"

namespace memtune::sweep {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr milliseconds kFollowersTick{50};
constexpr int kFailedCode = 1;

}  // namespace

struct Followers::State {
  std::mutex sending;  // held while a message is sent to this worker
  std::deque<json> messages;
  std::string lost;  // the reason; "" while it is connected
  Clock::time_point heard = Clock::now();
};

// A rank's trial that runs in another memtune process.
class FollowedTrial final : public RankTrial {
 public:
  FollowedTrial(Followers& followers, int rank, int id, FollowedFiles to, FileSystem& files)
      : followers_(followers), rank_(rank), id_(id), to_(std::move(to)), files_(files), reader_({}) {}
  ~FollowedTrial() override {
    if (!ended_) end();
  }

  bool turn(milliseconds patience) override {
    json message;
    const auto index = static_cast<size_t>(rank_ - 1);
    if (!ended_ && followers_.receive(index, message, patience)) take(message);
    if (!ended_) lost_ = followers_.why_lost(index);
    ended_ |= !lost_.empty();
    return !ended_;
  }

  void end() override {
    if (ended_ || std::exchange(told_, true)) return;
    followers_.send(static_cast<size_t>(rank_ - 1), {{"stop", id_}});
  }

  bool ended_by_others() const override { return others_; }
  const Phase& phase() const override { return reader_.phase(); }

  TrialAnswer answer() const override {
    if (reader_.answer()) return *reader_.answer();
    return Failure{result::Outcome::error, lost_.empty() ? "its answer makes no sense" : lost_};
  }

 private:
  void take(const json& message) try {
    if (!message.contains("of") || message.at("of") != id_) return;  // of an earlier trial
    if (message.contains("phase")) reader_.add(print_json(message.at("phase")) + "\n");
    if (!message.contains("done")) return;
    ended_ = true;
    reader_.add(print_json(message.at("answer")) + "\n");
    others_ = message.at("others");
    write_file(to_.log, message.at("log").get<std::string>(), files_);
    if (const auto costs = message.at("costs").get<std::string>(); !to_.costs.empty() && !costs.empty())
      write_file(to_.costs, costs, files_);
  } catch (const std::exception&) {  // an invalid answer counts as none; a file that cannot be written is missing
  }

  Followers& followers_;
  const int rank_, id_;
  const FollowedFiles to_;
  FileSystem& files_;
  FrameReader reader_;
  bool ended_ = false, told_ = false, others_ = false;
  std::string lost_;
};

Followers::Followers(std::vector<Follower> followers, std::string address, milliseconds patience)
    : followers_(std::move(followers)),
      states_(followers_.size()),
      address_(std::move(address)),
      patience_(patience),
      listening_([this] { listen(); }) {}

Followers::~Followers() {
  end(kFailedCode);
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  listening_.join();
}

// Ranks on the machine of rank 0 connect over loopback, which other machines cannot reach. Their address is that of
// rank 0.
std::string Followers::address(int rank) const {
  const std::string& own = rank == 0 ? address_ : followers_.at(static_cast<size_t>(rank - 1)).address;
  return launch::is_loopback(own) ? address_ : own;
}

int Followers::on_this_machine() const {
  int ranks = 0;
  for (int rank = 0; rank < size(); ++rank) ranks += address(rank) == address_ ? 1 : 0;
  return ranks;
}

void Followers::send(size_t index, const json& message) {
  State& state = states_[index];
  const std::scoped_lock turn(state.sending);
  {
    const std::scoped_lock lock(mutex_);
    if (!state.lost.empty()) return;
  }
  try {  // may wait for this worker; the others still get heartbeats
    followers_[index].connection->send(message);
  } catch (const launch::PeerLost& error) {
    const std::scoped_lock lock(mutex_);
    state.lost = error.what();
  }
}

bool Followers::receive(size_t index, json& message, milliseconds patience) {
  std::unique_lock lock(mutex_);
  State& state = states_[index];
  heard_.wait_for(lock, patience, [&] { return !state.messages.empty() || !state.lost.empty(); });
  if (state.messages.empty()) return false;
  message = std::move(state.messages.front());
  state.messages.pop_front();
  return true;
}

std::string Followers::why_lost(size_t index) const {
  const std::scoped_lock lock(mutex_);
  const State& state = states_[index];
  if (state.lost.empty() || !state.messages.empty()) return "";
  return "its memtune on " + followers_[index].host + " is lost: " + state.lost;
}

void Followers::check() const {
  for (size_t i = 0; i < followers_.size(); ++i)
    if (const std::string why = why_lost(i); !why.empty()) throw Error("rank " + std::to_string(i + 1) + ": " + why);
}

bool Followers::have(const std::string& reference) {
  const std::string name = std::filesystem::path(reference).filename().string();
  for (size_t i = 0; i < followers_.size(); ++i) send(i, {{"have", name}});
  bool all = true;
  for (size_t i = 0; i < followers_.size(); ++i) {
    json message;
    while (!message.contains("have")) {  // messages of an earlier trial come first
      receive(i, message, kFollowersTick);
      check();
    }
    all &= message.at("have") == true;
  }
  return all;
}

std::unique_ptr<RankTrial> Followers::start(int rank, json trial, FollowedFiles to, FileSystem& files) {
  trial["start"] = ++trials_;
  send(static_cast<size_t>(rank - 1), trial);
  return std::make_unique<FollowedTrial>(*this, rank, trials_, std::move(to), files);
}

void Followers::end(int code) {
  if (std::exchange(ended_, true)) return;
  for (size_t i = 0; i < followers_.size(); ++i) send(i, {{"end", code}});
}

void Followers::listen() {
  Clock::time_point next = Clock::now();
  while (true) {
    std::vector<pollfd> sockets;
    {
      const std::scoped_lock lock(mutex_);
      if (closing_) return;
      for (size_t i = 0; i < followers_.size(); ++i)
        sockets.push_back({states_[i].lost.empty() ? followers_[i].connection->socket() : -1, POLLIN, 0});
    }
    ::poll(sockets.data(), sockets.size(), static_cast<int>(kFollowersTick.count()));
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < followers_.size(); ++i) hear(i);
    if (Clock::now() >= next) {
      beat();
      next = Clock::now() + beat_for(patience_);
    }
    heard_.notify_all();
  }
}

void Followers::hear(size_t index) {
  State& state = states_[index];
  if (!state.lost.empty()) return;
  try {
    for (json message; followers_[index].connection->receive(message);) {
      state.heard = Clock::now();
      if (!message.contains("beat") || message.contains("phase")) state.messages.push_back(std::move(message));
    }
    if (Clock::now() - state.heard > patience_)
      throw launch::PeerLost("it has said nothing for " + seconds_text(patience_));
  } catch (const launch::PeerLost& error) {
    state.lost = error.what();
  }
}

void Followers::beat() {
  for (size_t i = 0; i < followers_.size(); ++i) {
    // Otherwise a message is being sent, which also counts as a heartbeat.
    const std::unique_lock turn(states_[i].sending, std::try_to_lock);
    if (!turn || !states_[i].lost.empty() || !followers_[i].connection->takes_more()) continue;
    try {
      followers_[i].connection->send({{"beat", true}});
    } catch (const launch::PeerLost& error) {
      states_[i].lost = error.what();
    }
  }
}

}  // namespace memtune::sweep
