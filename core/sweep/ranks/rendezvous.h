// Rendezvous of the memtune processes of one launch. Rank 0 listens, the others connect and identify themselves.
//
// On one machine they meet at a local socket. The kernel says which user is at its other end, and only the user of this
// process is accepted. Ranks of several machines meet at the address from the launcher's environment, or at one that
// rank 0 publishes in the store of torchrun's agent. There, both ends prove that they know the secret of the launch:
// $MEMTUNE_RANK_SECRET, the token in that store, or both. Each proof covers both nonces. Messages:
//
//   rank r -> 0   {"hello": "memtune", "version", "nonce"}
//   0 -> rank r   {"nonce", "version", "proof"}
//   rank r -> 0   {"rank", "size", "words", "host", "mounts", "proof"}
//   0 -> rank r   {"welcome": true}, or {"refused": "why"}
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "core/sweep/launch/launcher_rank_environment.h"
#include "core/sweep/ranks/worker_coordinator.h"

namespace memtune::sweep {

struct RendezvousSharedCommandLineAndTimeout {
  std::string words;  // of the command line, which all ranks must share
  std::chrono::milliseconds timeout{120'000};
  // Rank 0's notes about connections that it closed, one line each and few of them, and about a missing secret.
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

// For rank 0. A connection that is silent, foreign, or of a rank that was started differently is closed, and the others
// are not delayed. Throws Error with the ranks that did not connect.
std::unique_ptr<WorkerCoordinator> accept_workers(const launch::LauncherRankEnvironment& launch,
                                                  const RendezvousSharedCommandLineAndTimeout& settings);

// For the other ranks. Throws Error if rank 0 is not reachable, UsageError with the reason if it refuses this rank.
std::unique_ptr<launch::JsonMessageConnection> join_coordinator(const launch::LauncherRankEnvironment& launch,
                                                                const RendezvousSharedCommandLineAndTimeout& settings);

}  // namespace memtune::sweep
