// The other ranks where a launcher started them all: each is a memtune of its own (core/sweep/follow.h), on this
// machine or another, that runs its rank of every trial and hands the answer over. This is rank 0's end of that.
//
//   rank r -> 0   {"hello": "memtune", "version", "rank", "size", "words", "host", "token"}
//   0 -> rank r   {"welcome": true}, or {"refused": "why"}
//   0 -> rank r   {"start": 3, "kind": "run", "request": TrialRequest, "limit_ms", "grace_ms", "fresh": true}
//                 {"stop": 3}   {"have": "reference-1a2b.bin"}   {"end": 0}
//   rank r -> 0   {"done": true, "of": 3, "answer": a frame of the trial's, "others": false, "phase": [...], "log":
//   "..."}
//                 {"have": true}
//   both          {"beat": true}                 so often that the silence of a machine that hangs is heard
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/launch/connection.h"
#include "core/sweep/rank_trial.h"

namespace memtune::sweep {

// How often each side says that it is there, for the other that waits so long.
constexpr std::chrono::milliseconds beat_for(std::chrono::milliseconds patience) {
  return std::min(std::chrono::milliseconds(500), patience / 4);
}

// One of the others, as it said who it is.
struct Follower {
  std::unique_ptr<launch::Connection> connection;
  std::string host;     // for people
  std::string address;  // by which it can be reached; numeric
};

// Where what a rank's trial left there goes here.
struct FollowedFiles {
  std::filesystem::path log;
  std::filesystem::path costs;  // "": there are none
};

class Followers {
 public:
  // `followers` of rank 1 and on, and rank 0's own address as they see it. `patience` with their silence.
  Followers(std::vector<Follower> followers, std::string address, std::chrono::milliseconds patience);
  // Those that were not told the end are told of a failure.
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  int on_this_machine() const;  // ranks
  int size() const { return static_cast<int>(followers_.size()) + 1; }
  // By which rank `rank` is reached from the others.
  std::string address(int rank) const;
  // The file of the last component of `reference` is whole at all of them. Error as lost().
  bool have(const std::string& reference);

  // What rank `rank`, from 1 on, is to run: {"kind", "request", "limit_ms", "grace_ms", "fresh"}. `to` is written
  // through `files`, which must outlive the trial.
  std::unique_ptr<RankTrial> start(int rank, nlohmann::json trial, FollowedFiles to, FileSystem& files);
  // Error that names the first that is gone and why, where one is: nothing more can be run.
  void check() const;
  // They end with this code.
  void end(int code);

 private:
  friend class FollowedTrial;
  struct State;

  void send(size_t index, const nlohmann::json& message);
  // Whether a message is there for it within `patience`.
  bool receive(size_t index, nlohmann::json& message, std::chrono::milliseconds patience);
  std::string why_lost(size_t index) const;
  void listen();
  void hear(size_t index);
  void beat();

  std::vector<Follower> followers_;
  std::vector<State> states_;
  const std::string address_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;  // of all above, from the listening thread's start on
  std::condition_variable heard_;
  bool ended_ = false, closing_ = false;
  int trials_ = 0;
  std::thread listening_;
};

}  // namespace memtune::sweep
