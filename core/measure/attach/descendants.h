// Finds all descendants of a process in /proc, also those that left its process group.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <span>
#include <vector>

namespace memtune::attach {

// Only running ones, without zombies, and without those of `except` and what descends from them.
std::vector<pid_t> descendants(pid_t of = ::getpid(), std::span<const pid_t> except = {});

// Returns those that were signalled. A process that got the number of one that ended meanwhile is not.
std::vector<pid_t> signal_descendants(int signal, pid_t of = ::getpid(), std::span<const pid_t> except = {});

}  // namespace memtune::attach
