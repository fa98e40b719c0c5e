// Worker side of a multi-rank launch: runs a rank other than 0 until rank 0 ends the sweep. The coordinator side is
// core/sweep/ranks/worker_coordinator.h.
#pragma once

#include <chrono>

#include "core/plan/request/trial_request.h"
#include "core/sweep/launch/json_message_connection.h"
#include "core/sweep/launch/launcher_rank_environment.h"

namespace memtune::sweep {

// Runs this rank of the trials that rank 0 requests. Model, libraries and folders are taken from `own`, the command
// line of this process: a peer cannot make it run other code or write other files. Returns rank 0's exit code, or 130
// after a signal. Throws Error if rank 0 is gone, or silent for `timeout`.
int run_worker(const launch::LauncherRankEnvironment& launch, launch::JsonMessageConnection& coordinator,
               const plan::TrialRequest& own, std::chrono::milliseconds timeout);

}  // namespace memtune::sweep
