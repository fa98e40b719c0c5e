// Restricts a trial's process before it loads a model, because loading an untrusted model can run its code.
#pragma once

#include <filesystem>
#include <vector>

namespace memtune::trial {

// From now on this process and its children can create, change and remove files only beneath `folders`, and open no TCP
// connections. They can still read files and use accelerators. It cannot be undone. Returns false if the kernel has no
// Landlock. It holds for the calling thread and those that it starts, so call it before there are others.
bool restrict_writes_to(const std::vector<std::filesystem::path>& folders);

// Ends the process, and its process group if it leads one, as soon as the pipe `descriptor` has no reader: the parent
// is gone. Does nothing if it is no pipe. A thread of its own watches the pipe.
void exit_when_reader_closes(int descriptor);

}  // namespace memtune::trial
