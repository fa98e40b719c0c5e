// Reading of saved states: every byte is compared with its checksum.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "core/state/manifest.h"
#include "core/state/state_folder.h"

namespace memtune::state {

// Who loads. May throw what it likes; nothing more comes then.
struct Receiver {
  std::function<void(const Manifest&)> begin;                           // before any tensor; may be empty
  std::function<void(const StateTensor&, std::span<const char>)> take;  // file by file
};

// The newest state, or that of `step`; the step that it is of. Damaged when it is not what was written, however late
// that shows: what was received is worth nothing then. The message names the newest one that is whole. UsageError when
// there is no such state.
int64_t load(const StateFolder& folder, std::optional<int64_t> step, const Receiver& receiver);

}  // namespace memtune::state
