// What the process of a trial gives up before it loads a model, which is code of a stranger's.
#pragma once

#include <filesystem>
#include <vector>

namespace memtune::trial {

// From now on this process, and what it starts, creates, changes and removes files beneath `folders` alone, and opens
// no TCP connection; it reads as before, and uses the accelerators' devices. For good. False where the kernel has no
// Landlock. For the calling thread and those that it starts: call it before there are others.
bool write_only_beneath(const std::vector<std::filesystem::path>& folders);

// Ends the process, and its group where that is its own, as soon as nobody reads the pipe `descriptor` any more: the
// parent is gone. Nothing where it is no pipe. Looks on in a thread of its own.
void end_with_reader_of(int descriptor);

}  // namespace memtune::trial
