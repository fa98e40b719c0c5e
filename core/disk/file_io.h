// The seam between the disk tier and the operating system: transfers, several at a time, beside the calls that all
// files go through. A test can refuse, cut short or falsify any single one.
//
// Results are the system's own, a number or -errno. Nothing is retried, resumed or turned into an error here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "core/base/file_system.h"

namespace memtune::disk {

// Offsets, addresses and sizes of transfers are multiples of it: enough for direct I/O on any disk that is used so.
constexpr int64_t kAlignment = 4096;

constexpr int64_t round_up(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Memory that transfers may use; `bytes` are rounded up. Throws what an allocation throws.
struct FreeMemory {
  void operator()(char* data) const { std::free(data); }
};
using AlignedBytes = std::unique_ptr<char[], FreeMemory>;
AlignedBytes aligned_bytes(int64_t bytes);

// One read or write between a file and memory.
struct DiskTransfer {
  enum class Kind { read, write } kind = Kind::read;
  int64_t offset = 0;  // in the file
  char* data = nullptr;
  int64_t bytes = 0;
};

struct Completion {
  size_t tag = 0;
  int64_t result = 0;  // bytes moved, perhaps fewer than asked for, or -errno
};

// Transfers of one open file, several at a time. It does not own the file.
class FileIo {
 public:
  virtual ~FileIo() = default;
  // Starts a transfer and returns at once: 0, or -errno when it was not started. From any thread; never more than
  // `depth` between their submit() and their reap().
  virtual int submit(const DiskTransfer& transfer, size_t tag) = 0;
  // Waits for one of those that were started. From one thread, and only when there is one.
  virtual Completion reap() = 0;
  // Many transfers will come from and go to these bytes, which outlive this. A hint: may do nothing.
  virtual void pin(char* /*data*/, int64_t /*bytes*/) {}
  virtual const char* name() const = 0;
};

enum class Backend {
  automatic,  // io_uring, or threads where the kernel or a container refuses it
  uring,
  threads,
};

// Null where io_uring is refused.
std::unique_ptr<FileIo> make_uring_io(int file, int depth);
std::unique_ptr<FileIo> make_thread_io(int file, int depth);

// What files with transfers ask the system for.
class DiskSystem : public FileSystem {
 public:
  // What offsets, addresses and sizes of direct I/O have to be multiples of; 0: the file has none; -errno: not known.
  virtual int64_t direct_alignment(int file);
  // From now on past the page cache; -EINVAL where the file system cannot.
  virtual int make_direct(int file);
  // Null where `backend` is refused.
  virtual std::unique_ptr<FileIo> start_io(int file, int depth, Backend backend);
};

// The real one.
DiskSystem& system_disk();

}  // namespace memtune::disk
