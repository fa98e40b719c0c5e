// What the disk itself can do, without checksums: the yardstick for the disk tier, and a line of the doctor.
#pragma once

#include <filesystem>
#include <string>

#include "core/disk/file_io.h"

namespace memtune::disk {

struct DiskSpeed {
  double write_gb_per_s = 0, read_gb_per_s = 0;
  std::string how;  // "io_uring, direct, unnamed"
};

// Writes `bytes` twice, of which the second time counts, and reads them, 8 MiB at a time, 8 of them in flight. Throws
// as BlockStore does.
DiskSpeed probe_disk(const std::filesystem::path& directory, int64_t bytes, bool allow_memory = false,
                     Backend backend = Backend::automatic, DiskSystem& system = system_disk());

}  // namespace memtune::disk
