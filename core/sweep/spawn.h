// Starts the program that runs a trial, so that nothing of it outlives this process and it can take no more than it is
// given: killed with its parent from its first instruction on, a process group of its own, no privileges that it does
// not have, no core file, no more private memory than the machine has.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace memtune::sweep {

// `command` begins with the program's path. stdin is empty, stdout and stderr are `log`, config::kFrameDescriptor is
// `frames`, config::kRendezvousDescriptor `rendezvous` where that is one. The parent's death is that of the calling
// thread. Throws IoError when it cannot be started.
pid_t spawn(std::vector<std::string> command, std::vector<std::string> environment, int log, int frames,
            int rendezvous = -1);

}  // namespace memtune::sweep
