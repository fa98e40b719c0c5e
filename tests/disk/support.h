// Shared by the tests of the disk tier.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>

#include <random>
#include <string>
#include <vector>

#include "core/engine/disk/scratch_block_store.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/run_program.h"
#include "tests/support/watchdog.h"

namespace memtune::test {

// Properties of an open() call, from its flags.
inline bool unnamed(int flags) { return (flags & O_TMPFILE) == O_TMPFILE; }
inline bool direct(int flags) { return (flags & O_DIRECT) != 0; }

// A folder, a disk that can fail on request, and a store on it with one backend.
struct Stage {
  explicit Stage(disk::IoBackend backend = disk::IoBackend::automatic) {
    settings.directory = folder.path;
    settings.allow_memory = true;  // the temporary folder may be a tmpfs
    settings.backend = backend;
  }
  disk::ScratchBlockStore& open() { return store.emplace(settings, disk); }

  ScratchFolder folder;
  FaultyDisk disk;
  disk::ScratchBlockStoreSettings settings;
  std::optional<disk::ScratchBlockStore> store;
};

inline bool uring_works() {
  const bool works = disk::make_uring_io(0, 1) != nullptr;
  if (!works) MESSAGE("io_uring is refused here: only threads are tested");
  return works;
}

inline std::vector<disk::IoBackend> backends() {
  if (!uring_works()) return {disk::IoBackend::threads};
  return {disk::IoBackend::uring, disk::IoBackend::threads};
}

inline std::string name_of(disk::IoBackend backend) {
  return backend == disk::IoBackend::uring ? "io_uring" : "threads";
}

inline void fill(char* data, int64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(random());
}

}  // namespace memtune::test
