// Writes a state from memory to the disk, in two ways.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/device/device.h"
#include "core/engine/state/async_host_state_snapshot.h"
#include "core/engine/state/saved_states_folder.h"

namespace memtune::state {

// Writes a snapshot while it is being copied, and publishes it. Returns the bytes of the file. Any thread. Throws as
// AtomicSavedStateWriter, and what the snapshot failed with.
int64_t write(const AsyncHostStateSnapshot& snapshot, SavedStatesFolder& folder);

// Writes while training waits: copies from the device and transfers to the disk overlap, each of a few pieces.
// `buffer`: at least kMinBufferBytes; more than kBufferBytes gains nothing. The training thread only.
inline constexpr int64_t kPieceBytes = int64_t{8} << 20;
inline constexpr int64_t kMinBufferBytes = 2 * kPieceBytes, kBufferBytes = 16 * kPieceBytes;
int64_t write(device::Device& device, int64_t step, const std::vector<TensorToSave>& parts, device::HostBuffer& buffer,
              SavedStatesFolder& folder);

}  // namespace memtune::state
