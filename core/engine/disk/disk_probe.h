// Measures the disk without checksums. The result is the reference for the disk tier and for saves, and is reported by
// `memtune doctor`.
#pragma once

#include <filesystem>
#include <string>

#include "core/engine/disk/async_file_io.h"

namespace memtune::disk {

// Returns incompressible data, so that compressing disks gain nothing.
AlignedBuffer noise(int64_t bytes);

struct MeasuredDiskBandwidth {
  double write_gb_per_s = 0, read_gb_per_s = 0;
  double new_file_gb_per_s = 0;  // first write of a file until it is durable: the reference for saves
  std::string how;               // "io_uring, direct, unnamed"
};

// Writes `bytes` to a new file, overwrites them, and reads them: 8 MiB at a time, 8 in flight. Throws like
// ScratchBlockStore.
MeasuredDiskBandwidth probe_disk(const std::filesystem::path& directory, int64_t bytes, bool allow_memory = false,
                                 IoBackend backend = IoBackend::automatic,
                                 AsyncDirectIoFileSystem& system = system_disk());

}  // namespace memtune::disk
