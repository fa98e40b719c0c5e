// Rendezvous of the memtune processes of one launch. Rank 0 listens at the address from the launcher's environment, or
// publishes its own address in the store of torchrun's agent. The others connect and identify themselves.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/sweep/launch/launch_info.h"
#include "core/sweep/ranks/worker_group.h"

namespace memtune::sweep {

struct RendezvousOptions {
  std::string words;  // of the command line, which all ranks must share
  std::chrono::milliseconds timeout{120'000};
};

// For rank 0. Throws Error with the ranks that did not connect, UsageError for a rank that was started differently.
std::unique_ptr<WorkerGroup> accept_workers(const launch::LaunchInfo& launch, const RendezvousOptions& settings);

// For the other ranks. Throws Error if rank 0 is not reachable, UsageError with the reason if it refuses this rank.
std::unique_ptr<launch::Connection> join_coordinator(const launch::LaunchInfo& launch,
                                                     const RendezvousOptions& settings);

}  // namespace memtune::sweep
