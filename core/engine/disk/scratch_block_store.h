// Stores blocks of bytes in a scratch file on disk. A block is written once and read any number of times. Each read is
// verified by a checksum.
//
//   store.reserve(bytes of a step)                     takes disk space now, or fails now
//   Block block = store.allocate(bytes)                a part of the scratch file, freed with the block
//   store.write(block, data, before)->wait()           before(), checksum, write; then data may be reused
//   store.read(block, data, before)->wait()            waits for the write, before(), read, checksum comparison
//
// Requests return at once. They start in the order of the calls, several run at a time. Reads and writes are
// independent, but a read waits for the write of its block. A failure is final: wait() of that request throws, and so
// does every later call, with the same DiskFullError, DiskOrFileSystemError or DiskDataCorruptionError (or what
// `before` threw). Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/engine/disk/async_file_io.h"
#include "core/engine/disk/extent_allocator.h"
#include "core/engine/disk/request_queue.h"
#include "core/engine/disk/scratch_file.h"

namespace memtune::disk {

struct ScratchBlockStoreSettings {
  std::filesystem::path directory;  // of the scratch file
  int64_t budget_bytes = 0;         // 0: the free space of the file system
  bool allow_memory = false;        // allows file systems in memory, such as tmpfs
  IoBackend backend = IoBackend::automatic;
  int depth = 8;  // transfers in flight, per direction
};

struct BlockState;

// A part of the scratch file. It is freed with this object or after its last request, whichever is later. May outlive
// the store.
class ScratchFileBlockHandle {
 public:
  ScratchFileBlockHandle() = default;
  ScratchFileBlockHandle(ScratchFileBlockHandle&&) = default;
  ScratchFileBlockHandle& operator=(ScratchFileBlockHandle&&) = default;

  explicit operator bool() const { return state_ != nullptr; }
  int64_t bytes() const;

 private:
  friend class ScratchBlockStore;
  explicit ScratchFileBlockHandle(std::shared_ptr<BlockState> state) : state_(std::move(state)) {}
  std::shared_ptr<BlockState> state_;
};

class ScratchBlockStore {
 public:
  // Throws UsageError if the directory cannot be used. `system` is replaced in tests.
  explicit ScratchBlockStore(const ScratchBlockStoreSettings& settings,
                             AsyncDirectIoFileSystem& system = system_disk());
  // Finishes transfers in flight. Requests that have not started fail, and their before() is not called.
  ~ScratchBlockStore();
  ScratchBlockStore(const ScratchBlockStore&) = delete;
  ScratchBlockStore& operator=(const ScratchBlockStore&) = delete;

  // Takes disk space for `bytes` in total. Throws DiskFullError and then leaves the store unchanged.
  void reserve(int64_t bytes);
  // Grows the file if no reserved space fits. Throws DiskFullError like reserve().
  ScratchFileBlockHandle allocate(int64_t bytes);

  // `data` is aligned to kAlignment and has block.bytes() rounded up to kAlignment bytes. It belongs to the store until
  // the request is done. After a failure other transfers may still be in flight, so use memory that outlives the store.
  // `before` runs once, on a thread of the store, right before the data is used; not after a failure. It may wait for a
  // copy into or out of `data`, and it may throw.
  RequestPtr write(const ScratchFileBlockHandle& block, const char* data, std::function<void()> before = nullptr);
  RequestPtr read(const ScratchFileBlockHandle& block, char* data, std::function<void()> before = nullptr);

  // Registers memory that many requests will use, to make them cheaper. It must outlive the store.
  void pin(char* data, int64_t bytes);

  int64_t used_bytes() const { return extents_->used_bytes(); }
  int64_t reserved_bytes() const { return extents_->end(); }
  DiskQueueThroughputStats written() const;
  DiskQueueThroughputStats read() const;
  // "io_uring, direct, unnamed": for people.
  std::string description() const { return file_.describe(writer_.io()); }

 private:
  void grow(int64_t bytes);
  void check_data(const ScratchFileBlockHandle& block, const char* data) const;
  uint64_t checksum(const BlockState& state, const char* data, std::atomic<int64_t>& time) const;
  void verify(const BlockState& state, const char* data);

  ScratchBlockStoreSettings settings_;
  ScratchFile file_;
  std::shared_ptr<ExtentAllocator> extents_ = std::make_shared<ExtentAllocator>();
  std::mutex growing_;
  uint64_t run_;  // random, so that blocks of other stores never pass the check
  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> write_checksum_ns_{0}, read_checksum_ns_{0};
  FirstIoFailureLatch failure_;
  RequestQueue writer_, reader_;  // last: their threads use all members above, and the reader waits for the writer
};

}  // namespace memtune::disk
