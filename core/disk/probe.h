// What the disk itself can do, without checksums: the yardstick for the disk tier and for saves, and a line of the
// doctor.
#pragma once

#include <filesystem>
#include <string>

#include "core/disk/file_io.h"

namespace memtune::disk {

// Memory that a disk which compresses gets no smaller.
AlignedBytes noise(int64_t bytes);

struct DiskSpeed {
  double write_gb_per_s = 0, read_gb_per_s = 0;
  double new_file_gb_per_s = 0;  // the first write of a file, until it is durable: the yardstick for a save
  std::string how;               // "io_uring, direct, unnamed"
};

// Writes `bytes` into a new file, again over what is there, and reads them, 8 MiB at a time, 8 of them in flight.
// Throws as BlockStore does.
DiskSpeed probe_disk(const std::filesystem::path& directory, int64_t bytes, bool allow_memory = false,
                     Backend backend = Backend::automatic, DiskSystem& system = system_disk());

}  // namespace memtune::disk
