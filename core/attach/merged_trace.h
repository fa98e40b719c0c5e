// One trace of a command out of what its ranks recorded: kernels and copies, steps, their passes and parts of the
// model, each rank on tracks of its own, all on one clock.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/attach/figures.h"
#include "core/base/file_system.h"

namespace memtune::attach {

// Writes it to `target`, where steps were traced, and fills in its name and the copies of the slowest rank. `folder`
// has the records; what of it cannot be read is a note.
void fill_traced(const Team& team, const std::filesystem::path& folder, const std::filesystem::path& target,
                 FileSystem& files, result::Measurement& to, std::vector<std::string>& notes);

}  // namespace memtune::attach
