// The interface between the disk tier and the operating system: concurrent transfers, and FileSystem's calls. A test
// can make any single one fail, return less or return wrong data.
//
// Results are those of the system call: a number, or -errno. Nothing is retried or turned into an exception here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "core/base/bytes.h"
#include "core/base/file_system.h"

namespace memtune::disk {

// Offsets, addresses and sizes of transfers are multiples of it. That suffices for direct I/O on common disks.
constexpr int64_t kAlignment = 4096;

constexpr int64_t round_up(int64_t bytes) { return memtune::round_up(bytes, kAlignment); }

// Memory for transfers; `bytes` is rounded up. Throws std::bad_alloc.
struct FreeDeleter {
  void operator()(char* data) const { std::free(data); }
};
using AlignedBuffer = std::unique_ptr<char[], FreeDeleter>;
AlignedBuffer aligned_bytes(int64_t bytes);

// One read or write between a file and memory.
struct IoSubmission {
  enum class Kind { read, write } kind = Kind::read;
  int64_t offset = 0;  // in the file
  char* data = nullptr;
  int64_t bytes = 0;
};

struct IoCompletion {
  size_t tag = 0;
  int64_t result = 0;  // bytes transferred, possibly fewer than requested, or -errno
};

// Concurrent transfers of one open file, which the caller owns.
class AsyncFileIo {
 public:
  virtual ~AsyncFileIo() = default;
  // Starts a transfer and returns at once: 0, or -errno if it was not started. Thread: any. At most `depth` transfers
  // may be submitted and not yet reaped.
  virtual int submit(const IoSubmission& transfer, size_t tag) = 0;
  // Blocks until a started transfer has ended. Call it from one thread only, and only if there is one.
  virtual IoCompletion reap() = 0;
  // Registers memory that many transfers will use; it must outlive this object. A hint without guaranteed effect.
  virtual void pin(char* /*data*/, int64_t /*bytes*/) {}
  virtual const char* name() const = 0;
};

enum class IoBackend {
  automatic,  // io_uring, or threads if the kernel or a container refuses it
  uring,
  threads,
};

// Returns null if io_uring is refused.
std::unique_ptr<AsyncFileIo> make_uring_io(int file, int depth);
std::unique_ptr<AsyncFileIo> make_thread_io(int file, int depth);

// File calls with concurrent transfers and direct I/O.
class AsyncDirectIoFileSystem : public FileSystem {
 public:
  // Required alignment of offsets, addresses and sizes for direct I/O; 0: not supported; -errno: not known.
  virtual int64_t direct_alignment(int file);
  // Bypasses the page cache from now on; -EINVAL if the file system does not support that.
  virtual int make_direct(int file);
  // Returns null if `backend` is refused.
  virtual std::unique_ptr<AsyncFileIo> start_io(int file, int depth, IoBackend backend);
};

// Returns the shared instance that makes the real system calls.
AsyncDirectIoFileSystem& system_disk();

}  // namespace memtune::disk
