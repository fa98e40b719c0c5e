// Finds all descendants of a process in /proc, also those that left its process group.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <vector>

namespace memtune::attach {

// Only running ones, without zombies.
std::vector<pid_t> descendants(pid_t of = ::getpid());

// Returns how many there were.
int signal_descendants(int signal, pid_t of = ::getpid());

}  // namespace memtune::attach
