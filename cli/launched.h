// Runs a command that torchrun, srun or mpirun started as several processes.
#pragma once

#include <functional>
#include <string>

#include "cli/console.h"
#include "core/plan/request/trial_request.h"
#include "core/sweep/loop/sweep.h"

namespace memtune::cli {

// In a single process, calls `act`. With several, rank 0 is the coordinator: it calls `act` with the other ranks as
// workers. Workers run its requests and exit with its code.
int run_launched(sweep::EngineSweepSettings settings, const ConsoleFlags& console,
                 const std::function<int(const sweep::EngineSweepSettings&)>& act);

// Throws UsageError if a launcher started several ranks: `what` does not work then.
void refuse_launched(const plan::TrainingSettings& training, const std::string& what);
// Throws UsageError if a launcher started this process with a local rank. A process that only has a global rank may be
// the one that starts the launcher.
void refuse_worker(const std::string& what);

}  // namespace memtune::cli
