// Sizes of copies and of host memory that the engines use and the simulator assumes.
#pragma once

#include <cstdint>

namespace memtune::schedule {

inline constexpr int64_t kBatchBytes = 8 << 20;  // largest batch of one call; larger storages are copied alone. 0.2 ms
inline constexpr int64_t kDiskPieceBytes = 4 << 20;  // a storage on its way to or from disk is copied in such pieces
inline constexpr int64_t kHostGrainBytes = 4096;     // sizes in host memory are multiples of a page
// Host memory is requested in slabs: page-locking is slow, and a CPU that emulates a device has small models.
inline constexpr int64_t kCudaSlabBytes = 256 << 20, kCpuSlabBytes = 16 << 20;
constexpr int64_t host_slab_bytes(bool emulated) { return emulated ? kCpuSlabBytes : kCudaSlabBytes; }

}  // namespace memtune::schedule
