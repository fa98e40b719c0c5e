// Commands that torchrun, srun or mpirun started as several processes.
#pragma once

#include <functional>
#include <string>

#include "core/config/trial_request.h"
#include "core/sweep/sweep.h"

namespace memtune::cli {

// Of one process alone `act` with its settings as they are. Of several it is rank 0's, the one that speaks and writes,
// with the others at its side; those run what it asks for and end with its exit code.
int run_launched(sweep::SweepSettings settings, const std::function<int(const sweep::SweepSettings&)>& act);

// UsageError where a launcher started the ranks: `what` does not go with that.
void refuse_launched(const config::TrainingSettings& training, const std::string& what);
// UsageError in a process that a launcher started beside others on this machine. One that has a rank alone may be where
// the launcher is to be started.
void refuse_worker(const std::string& what);

}  // namespace memtune::cli
