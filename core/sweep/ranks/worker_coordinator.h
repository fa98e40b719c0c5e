// Coordinator side of a multi-rank launch. Each other rank is a memtune process (core/sweep/ranks/worker.h) on this
// machine or another. It runs its rank of every trial and sends back the answer. Messages behind those of rendezvous.h:
//
//   0 -> rank r   {"start": 3, "kind": "run", "request": TrialRequest, "limit_ms", "grace_ms", "fresh": true}
//                 {"stop": 3}   {"have": "reference-1a2b.bin"}   {"end": 0}
//   rank r -> 0   {"costs": "a part", "of": 3}
//                 {"done": true, "of": 3, "answer": a frame, "others": false, "phase": a frame, "log"}
//                 {"have": true}
//                 {"beat": true, "of": 3, "phase": a frame}   heartbeat during a trial
//   both          {"beat": true}                              heartbeat, which detects a machine that hangs
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

#include "core/sweep/launch/json_message_connection.h"
#include "core/sweep/trials/local_or_remote_rank_trial_process.h"

namespace memtune::sweep {

// Interval of heartbeats to a peer whose timeout is `timeout`.
constexpr std::chrono::milliseconds heartbeat_interval(std::chrono::milliseconds timeout) {
  return std::min(std::chrono::milliseconds(500), timeout / 4);
}

// Longest messages from rank 0 and to it. What a worker sends is read only as far as rank 0 uses it.
inline constexpr size_t kRequestBytes = size_t{64} << 20, kAnswerBytes = size_t{8} << 20;
inline constexpr size_t kCostsBytes = size_t{32} << 20;  // of one trial, in several messages

// A worker, as it introduced itself.
struct WorkerConnectionAndAddress {
  std::unique_ptr<launch::JsonMessageConnection> connection;
  std::string host;     // for messages
  std::string address;  // numeric, by which it can be reached
};

// Local files for the output of a remote rank's trial.
struct LocalPathsForRemoteRankLogAndCosts {
  std::filesystem::path log;
  std::filesystem::path costs;  // "": none
};

class WorkerCoordinator {
 public:
  // `workers`: ranks 1, 2, ... in this order. `address`: of rank 0, as they see it. `timeout`: timeout for their
  // heartbeats. `shares_files`: all ranks see the same files.
  WorkerCoordinator(std::vector<WorkerConnectionAndAddress> workers, std::string address,
                    std::chrono::milliseconds timeout, bool shares_files = false);
  // Ends the workers with a failure code if end() was not called.
  ~WorkerCoordinator();
  WorkerCoordinator(const WorkerCoordinator&) = delete;
  WorkerCoordinator& operator=(const WorkerCoordinator&) = delete;

  int on_this_machine() const;  // number of ranks
  bool shares_files() const { return shares_files_; }
  int size() const { return static_cast<int>(workers_.size()) + 1; }
  // The address by which the other ranks reach `rank`.
  std::string address(int rank) const;
  // True if each worker has a complete file with the name of `reference`. Throws as check(), and if a worker does not
  // answer within the timeout.
  bool all_have_reference(const std::string& reference);

  // Starts rank `rank`, from 1 on. `trial`: {"kind", "request", "limit_ms", "grace_ms", "fresh"}. The result refers to
  // this object. Its log and costs are written to `to` through `files`, which must outlive the trial.
  std::unique_ptr<LocalOrRemoteRankTrialProcess> start(int rank, nlohmann::json trial,
                                                       LocalPathsForRemoteRankLogAndCosts to, FileSystem& files);
  // Throws Error with the first worker that is lost and why; no trial can run then.
  void check() const;
  // Makes the workers exit with `code`. Only the first call counts.
  void end(int code);

 private:
  friend class RemoteRankProcess;
  struct State;

  void send(size_t index, const nlohmann::json& message);
  // Returns false if no message of that worker arrives within `timeout`.
  bool receive(size_t index, nlohmann::json& message, std::chrono::milliseconds timeout);
  std::string why_lost(size_t index) const;
  void listen();
  bool has_room(size_t index) const;
  void receive_messages(size_t index);
  void note_silence(size_t index);
  void heartbeat();

  std::vector<WorkerConnectionAndAddress> workers_;
  std::vector<State> states_;
  const std::string address_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;  // guards states_ (but `sending`) and closing_ against the listening thread
  std::condition_variable message_received_;
  const bool shares_files_;
  bool ended_ = false, closing_ = false;
  int trials_ = 0;
  std::thread listening_;
};

}  // namespace memtune::sweep
