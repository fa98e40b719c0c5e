// A process of memtune-trial and the ends of its pipes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/file.h"

namespace memtune::sweep {

struct TrialPidAndPipes {
  pid_t pid = 0;
  FileDescriptor frames, said;  // to read: frames of the protocol; stdout and stderr
};

// `arguments`: of memtune-trial. `threads`: of OpenMP, unless OMP_NUM_THREADS is set; 0: its default. `rendezvous`: a
// listening socket for plan::kRendezvousDescriptor; -1: none. `input`: stdin; -1: empty. Throws IoError, UsageError.
TrialPidAndPipes start_trial(std::vector<std::string> arguments, int threads, int rendezvous = -1, int input = -1);

}  // namespace memtune::sweep
