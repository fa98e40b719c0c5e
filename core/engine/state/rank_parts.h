// Lets the ranks that save one state together report to rank 0, through files in the state's folder. Each rank writes a
// file in the format of a manifest once its data is durable, or why there is none. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/engine/state/saved_states_folder.h"
#include "core/engine/state/state_manifest.h"

namespace memtune::state {

// For a rank other than 0. Throws IoError.
void publish_part(SavedStatesFolder& folder, const StateManifest& own);
// If even this cannot be written, rank 0 times out.
void publish_failure(SavedStatesFolder& folder, int64_t step, const std::string& why);

// For rank 0: waits for the other ranks and adds their parts to its own. Throws IoError with the rank that failed or
// timed out.
StateManifest merge_rank_manifests(SavedStatesFolder& folder, StateManifest own);
// Removes the files of the parts, which are in the manifest by then. Errors are ignored.
void remove_parts(SavedStatesFolder& folder, int64_t step);

}  // namespace memtune::state
