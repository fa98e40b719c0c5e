// Commands that torchrun, srun or mpirun started as several processes.
#pragma once

#include <functional>
#include <string>

#include "core/sweep/sweep.h"

namespace memtune::cli {

// Of one process alone `act` with its settings as they are. Of several it is rank 0's, the one that speaks and writes,
// with the others at its side; those run what it asks for and end with its exit code.
int run_launched(sweep::SweepSettings settings, const std::function<int(const sweep::SweepSettings&)>& act);

// UsageError where a launcher started several: `what` does not go with that.
void refuse_launched(const std::string& what);

}  // namespace memtune::cli
