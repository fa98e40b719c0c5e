// The traces that the ranks of one trial wrote, each a process on this machine, as one.
#pragma once

#include <filesystem>
#include <vector>

#include "core/base/file_system.h"

namespace memtune::sweep {

// `traces` by rank; the first becomes that of all, by the machine's clock, and the others' files go. Values, memory and
// the figures of a step stay rank 0's. What is not there, or cannot be read, is left out.
void merge_rank_traces(const std::vector<std::filesystem::path>& traces, FileSystem& files);

}  // namespace memtune::sweep
