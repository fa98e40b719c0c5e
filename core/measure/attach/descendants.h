// Finds all descendants of this process in /proc, also those that left its process group.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

namespace memtune::attach {

// Only running ones, without zombies, and without those of `except` and what descends from them.
std::vector<pid_t> descendants(std::span<const pid_t> except = {});

// Returns those that were signalled. A process that got the number of one that ended meanwhile is not.
std::vector<pid_t> signal_descendants(int signal, std::span<const pid_t> except = {});

}  // namespace memtune::attach
