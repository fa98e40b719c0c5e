// Loads saved states. Every byte is compared with its checksum.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "core/engine/state/saved_states_folder.h"
#include "core/engine/state/state_manifest.h"

namespace memtune::state {

// Callbacks of the code that loads a state. They may throw anything, which ends the load.
struct SavedStateLoadCallbacks {
  std::function<void(const StateManifest&)> begin;                              // before any tensor; may be empty
  std::function<void(const ManifestTensorEntry&, std::span<const char>)> take;  // file by file; may be empty
};

// Loads the newest state, or that of `step`, and returns its step. Throws Damaged if it is not what was written. That
// may show late, so the caller must discard everything it has received. The message names the newest state that is
// intact. Throws UsageError if there is no such state.
int64_t load(const SavedStatesFolder& folder, std::optional<int64_t> step, const SavedStateLoadCallbacks& receiver);

}  // namespace memtune::state
