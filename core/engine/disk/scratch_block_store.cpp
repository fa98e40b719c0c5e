#include "core/engine/disk/scratch_block_store.h"

#include <random>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace memtune::disk {

struct BlockState {
  BlockState(std::shared_ptr<ExtentAllocator> owner, int64_t at, int64_t size, uint64_t number)
      : extents(std::move(owner)), offset(at), bytes(size), generation(number) {}
  ~BlockState() { extents->deallocate(offset, round_up(bytes)); }
  BlockState(const BlockState&) = delete;
  BlockState& operator=(const BlockState&) = delete;

  const std::shared_ptr<ExtentAllocator> extents;
  const int64_t offset, bytes;
  const uint64_t generation;  // differs from earlier blocks at the same place
  uint64_t checksum = 0;      // set before the write is done
  RequestPtr written;         // null: no write was requested
};

namespace {

uint64_t random_number() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// The checksum includes the block's identity, so data of another block fails the check.
uint64_t seed_of(const BlockState& state, uint64_t run) {
  const uint64_t identity[] = {run, static_cast<uint64_t>(state.offset), state.generation,
                               static_cast<uint64_t>(state.bytes)};
  return hash64(identity, sizeof identity, 0);
}

}  // namespace

int64_t ScratchFileBlockHandle::bytes() const { return state_->bytes; }

ScratchBlockStore::ScratchBlockStore(const ScratchBlockStoreSettings& settings, AsyncDirectIoFileSystem& system)
    : settings_(settings),
      file_(system, settings.directory, settings.allow_memory),
      run_(random_number()),
      writer_(file_, file_.start_io(settings.depth, settings.backend), settings.depth, failure_),
      reader_(file_, file_.start_io(settings.depth, settings.backend), settings.depth, failure_) {}

ScratchBlockStore::~ScratchBlockStore() { failure_.note(std::make_exception_ptr(Error("the block store is closed"))); }

void ScratchBlockStore::reserve(int64_t bytes) {
  failure_.rethrow();
  std::lock_guard lock(growing_);
  grow(round_up(bytes));
}

void ScratchBlockStore::grow(int64_t bytes) {
  if (bytes <= file_.bytes()) return;
  if (settings_.budget_bytes > 0 && bytes > settings_.budget_bytes)
    throw DiskFullError("the scratch file in '" + settings_.directory.string() + "' has to hold " +
                        format_bytes(bytes) + ", its budget is " + format_bytes(settings_.budget_bytes) + " (" +
                        format_bytes(extents_->used_bytes()) +
                        " in use); raise --disk-budget or offload less to the disk");
  file_.grow(bytes);
  extents_->grow(bytes);
}

ScratchFileBlockHandle ScratchBlockStore::allocate(int64_t bytes) {
  failure_.rethrow();
  if (bytes <= 0) throw Error("a block of " + std::to_string(bytes) + " bytes was asked for; blocks have at least 1");
  auto offset = extents_->take(round_up(bytes));
  if (!offset) {
    std::lock_guard lock(growing_);
    while (!(offset = extents_->take(round_up(bytes)))) grow(file_.bytes() + extents_->missing(round_up(bytes)));
  }
  return ScratchFileBlockHandle(std::make_shared<BlockState>(extents_, *offset, bytes, ++generation_));
}

void ScratchBlockStore::check_data(const ScratchFileBlockHandle& block, const char* data) const {
  failure_.rethrow();
  if (!block || block.state_->extents != extents_) throw Error("a block of another store, or none, was given");
  if (reinterpret_cast<uintptr_t>(data) % kAlignment != 0)
    throw Error("the data of a block has to lie at a multiple of " + std::to_string(kAlignment));
}

RequestPtr ScratchBlockStore::write(const ScratchFileBlockHandle& block, const char* data,
                                    std::function<void()> before) {
  check_data(block, data);
  if (block.state_->written) throw Error("a block was written twice; allocate a new one");
  const std::shared_ptr<BlockState> state = block.state_;
  RequestQueue::Job job;
  // The kernel only reads from `data`.
  job.transfer = {IoSubmission::Kind::write, state->offset, const_cast<char*>(data), round_up(state->bytes)};
  job.prepare = [this, state, data, before = std::move(before)] {
    if (before) before();
    state->checksum = checksum(*state, data, write_checksum_ns_);
  };
  const RequestPtr request = job.request;
  writer_.push(std::move(job));
  return state->written = request;
}

RequestPtr ScratchBlockStore::read(const ScratchFileBlockHandle& block, char* data, std::function<void()> before) {
  check_data(block, data);
  const std::shared_ptr<BlockState> state = block.state_;
  if (!state->written) throw Error("a block was read that was never written");
  RequestQueue::Job job;
  job.transfer = {IoSubmission::Kind::read, state->offset, data, round_up(state->bytes)};
  job.prepare = [written = state->written, before = std::move(before)] {
    written->wait();
    if (before) before();
  };
  job.check = [this, state, data] { verify(*state, data); };
  const RequestPtr request = job.request;
  reader_.push(std::move(job));
  return request;
}

uint64_t ScratchBlockStore::checksum(const BlockState& state, const char* data, std::atomic<int64_t>& time) const {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t sum = hash64(data, static_cast<size_t>(state.bytes), seed_of(state, run_));
  time += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  return sum;
}

void ScratchBlockStore::verify(const BlockState& state, const char* data) {
  if (checksum(state, data, read_checksum_ns_) == state.checksum) return;
  throw DiskDataCorruptionError(
      "the scratch file in '" + settings_.directory.string() + "': " + format_bytes(state.bytes) + " at offset " +
      std::to_string(state.offset) +
      " came back changed, twice; the disk or this machine's memory damages data: name another disk "
      "with --scratch");
}

void ScratchBlockStore::pin(char* data, int64_t bytes) {
  writer_.io().pin(data, bytes);
  reader_.io().pin(data, bytes);
}

DiskQueueThroughputStats ScratchBlockStore::written() const {
  DiskQueueThroughputStats traffic = writer_.traffic();
  traffic.checksum = std::chrono::nanoseconds(write_checksum_ns_);
  return traffic;
}

DiskQueueThroughputStats ScratchBlockStore::read() const {
  DiskQueueThroughputStats traffic = reader_.traffic();
  traffic.checksum = std::chrono::nanoseconds(read_checksum_ns_);
  return traffic;
}

}  // namespace memtune::disk
