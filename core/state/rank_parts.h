// What ranks that save one state together tell the first of them, through the state's folder: a file each, of the form
// of a manifest, once its data is durable; or why there is none. Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "core/state/manifest.h"
#include "core/state/state_folder.h"

namespace memtune::state {

// Of this rank, which is not the first. IoError.
void tell_part(StateFolder& folder, const Manifest& own);
// Where even that cannot be written, the first rank loses its patience.
void tell_failure(StateFolder& folder, int64_t step, const std::string& why);

// Of the first rank: its own with those of the others, for which it waits. IoError with the rank that has failed or did
// not come.
Manifest with_other_ranks(StateFolder& folder, Manifest own);
// They are in the manifest; what cannot be removed stays.
void remove_parts(StateFolder& folder, int64_t step);

}  // namespace memtune::state
