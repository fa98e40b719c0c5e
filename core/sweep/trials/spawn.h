// Starts the program that runs a trial. The child is killed when its parent dies, and has a process group of its own.
// It gains no privileges, writes no core file, and gets no more private memory than the machine has.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace memtune::sweep {

// `command`: path of the program and arguments. stdin is `input`, or empty if that is -1; stdout and stderr go to
// `log`. `frames` becomes plan::kFrameDescriptor, and `rendezvous`, unless -1, plan::kRendezvousDescriptor. The child
// is killed when the calling thread ends. Throws IoError if it cannot be started.
pid_t spawn(std::vector<std::string> command, std::vector<std::string> environment, int log, int frames,
            int rendezvous = -1, int input = -1);

}  // namespace memtune::sweep
