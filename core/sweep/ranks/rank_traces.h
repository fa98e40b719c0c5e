// Merges the traces of the ranks of one trial, processes on one machine.
#pragma once

#include <filesystem>
#include <vector>

#include "core/base/file_system.h"

namespace memtune::sweep {

// `traces` by rank. The first becomes the merged trace, aligned by the machine's clock; the other files are removed.
// Activations, memory and the step's figures stay those of rank 0. Missing or unreadable traces are left out.
void merge_rank_traces(const std::vector<std::filesystem::path>& traces, FileSystem& files);

}  // namespace memtune::sweep
