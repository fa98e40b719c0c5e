// Blocks of bytes that wait on a disk: written once, read back as often as needed, and never trusted unread.
//
//   store.reserve(what a step needs)                   the disk is full now or not at all
//   Block block = store.allocate(bytes)                a part of the scratch file, given back when the block goes
//   store.write(block, data, before)->wait()           before(), checksum, write; data is free again
//   store.read(block, data, before)->wait()            write done, before(), read, checksum compared
//
// Requests return at once and run in the order of their calls, several at a time; reads and writes do not wait for each
// other except a read for the write of its own block. What fails, fails for good: that request's wait() throws, and so
// does every later call, with the same DiskFull, DiskError or CorruptBlock (or what `before` threw). Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/disk/extents.h"
#include "core/disk/file_io.h"
#include "core/disk/request_queue.h"
#include "core/disk/scratch_file.h"

namespace memtune::disk {

struct StoreSettings {
  std::filesystem::path directory;  // of the scratch file
  int64_t budget_bytes = 0;         // 0: what the file system has free
  bool allow_memory = false;        // tmpfs and the like
  Backend backend = Backend::automatic;
  int depth = 8;  // transfers in flight, each direction
};

struct BlockState;

// A part of the scratch file. Gone with this and with the last request for it, whichever is later; may outlive the
// store.
class Block {
 public:
  Block() = default;
  Block(Block&&) = default;
  Block& operator=(Block&&) = default;

  explicit operator bool() const { return state_ != nullptr; }
  int64_t bytes() const;

 private:
  friend class BlockStore;
  explicit Block(std::shared_ptr<BlockState> state) : state_(std::move(state)) {}
  std::shared_ptr<BlockState> state_;
};

class BlockStore {
 public:
  // Throws UsageError for a directory that cannot be used. `system` is for tests.
  explicit BlockStore(const StoreSettings& settings, DiskSystem& system = system_disk());
  // Waits for what is in flight, not for what waits to be: that fails, and its before() is not called.
  ~BlockStore();
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  // Takes room for `bytes` in all. Throws DiskFull, which leaves the store as it was.
  void reserve(int64_t bytes);
  // Grows the file when nothing reserved fits. Throws DiskFull likewise.
  Block allocate(int64_t bytes);

  // `data`: kAlignment-aligned, block.bytes() rounded up to kAlignment long, the caller's again when the request is
  // done. After a failure others are still in flight: memory that outlives the store is always safe. `before` runs on a
  // thread of the store, once, just before the data is used (not at all after a failure); it may wait for a copy into
  // or out of `data` and may throw. A block is written once.
  RequestPtr write(const Block& block, const char* data, std::function<void()> before = nullptr);
  RequestPtr read(const Block& block, char* data, std::function<void()> before = nullptr);

  // The data of many requests will lie here; the memory outlives the store. Only makes them cheaper.
  void pin(char* data, int64_t bytes);

  int64_t used_bytes() const { return extents_->used_bytes(); }
  int64_t reserved_bytes() const { return extents_->end(); }
  Traffic written() const;
  Traffic read() const;
  // "io_uring, direct, unnamed": how the disk is used.
  std::string description() const { return file_.describe(writer_.io()); }

 private:
  void grow(int64_t bytes);
  void check_data(const Block& block, const char* data) const;
  uint64_t checksum(const BlockState& state, const char* data, std::atomic<int64_t>& time) const;
  void verify(const BlockState& state, const char* data);

  StoreSettings settings_;
  ScratchFile file_;
  std::shared_ptr<Extents> extents_ = std::make_shared<Extents>();
  std::mutex growing_;
  uint64_t run_;  // drawn by lot: no other store's blocks are taken for this one's
  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> write_checksum_ns_{0}, read_checksum_ns_{0};
  FirstFailure failure_;
  RequestQueue writer_, reader_;  // last: their threads use all of the above, and the reader waits for the writer
};

}  // namespace memtune::disk
