// All processes that descend from one, by /proc: a child's children are found although they left its group.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <vector>

namespace memtune::attach {

// Those that run: none that have ended and wait to be reaped.
std::vector<pid_t> descendants(pid_t of = ::getpid());

// Answers how many there were.
int signal_descendants(int signal, pid_t of = ::getpid());

}  // namespace memtune::attach
