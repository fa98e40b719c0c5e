// A state from the memory that it is in to the disk, the two ways there are.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/device.h"
#include "core/state/snapshot.h"
#include "core/state/state_folder.h"

namespace memtune::state {

// Writes what a snapshot has gathered, as it comes in, and publishes it; bytes. Any thread. Throws as StateWriter, and
// what the snapshot has failed with.
int64_t write(const Snapshot& snapshot, StateFolder& folder);

// While training waits: copies from the device and transfers to the disk side by side, a few of its pieces each.
// `buffer`: of kLeastBufferBytes at least, of which kBufferBytes are enough. The thread that trains.
inline constexpr int64_t kPieceBytes = int64_t{8} << 20;
inline constexpr int64_t kLeastBufferBytes = 2 * kPieceBytes, kBufferBytes = 16 * kPieceBytes;
int64_t write(device::Device& device, int64_t step, const std::vector<StatePart>& parts, device::HostSlab& buffer,
              StateFolder& folder);

}  // namespace memtune::state
