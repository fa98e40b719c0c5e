// Copies the state of one moment into host memory while training continues.
//
//   Snapshot   ── copies what a forward changes first, and waits for it
//   send()     ── copies the rest on StreamKind::out, in portions with an event each, after those sent before
//   pending()  ── before an update of memory: the portion that has to be copied first
//   await_*()  ── the thread that writes the image waits for its bytes
//
// Only the training thread may call it, except for await_bytes() and await_confirmed().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/device/device.h"
#include "core/engine/state/state_manifest.h"
#include "core/model/safetensors/layout.h"

namespace memtune::state {

// A tensor of the state.
struct TensorToSave {
  safetensors::TensorNameDtypeAndShape spec;
  const char* data = nullptr;  // contiguous elements
  bool on_device = false;
  bool changes_in_forward = false;                 // else only in an update, which waits for its copy
  const void* memory = nullptr;                    // the allocation of `data`: updates ask for it by this
  std::shared_ptr<const void> owner;               // keeps `data` alive
  std::function<bool()> is_unchanged;              // since the parts were made; empty: nothing else writes to it
  std::optional<ShardExtent> part = std::nullopt;  // set for a part of a larger tensor, which has the shape of a row
};
int64_t bytes_of(const std::vector<TensorToSave>& parts);  // of a file's data
ShardExtents extents_of(const std::vector<TensorToSave>& parts);

class AsyncHostStateSnapshot {
 public:
  // Copies the parts in host memory at once. `image` has room for all parts and outlives this. `pinned`: it is
  // page-locked.
  AsyncHostStateSnapshot(device::Device& device, int64_t step, std::vector<TensorToSave> parts,
                         device::HostBuffer& image, bool pinned = true);
  // Waits for copies. A writer that waits for a copy that was never sent gets an Error.
  ~AsyncHostStateSnapshot();
  AsyncHostStateSnapshot(const AsyncHostStateSnapshot&) = delete;
  AsyncHostStateSnapshot& operator=(const AsyncHostStateSnapshot&) = delete;

  // Starts copies of whole portions, at most `most_bytes` in all. Returns at once.
  void send(int64_t most_bytes = std::numeric_limits<int64_t>::max());
  bool sent() const { return events_ == portions_.size(); }
  // How many portions have to be copied until all of `memory` is; 0: it is copied. Only for memory that was sent.
  size_t pending(const void* memory) const;
  // The first `portions`, at least one, are copied once this event is done.
  const device::EventPtr& left(size_t portions) const { return portions_[portions - 1].left; }
  // Releases the sources of finished copies.
  void release_sources();
  // To be called when a forward is over, or when none will follow: from then on only updates change parts. If a part
  // has changed before, the snapshot fails.
  void confirm();
  // To be called if no forward will follow to confirm it. Threads that wait get an Error, unless it is sent and
  // confirmed.
  void abandon();
  void wait();  // until everything is copied

  // Any thread. They block until the image is copied up to byte `end`, and until its bytes are known to be of one
  // moment. They throw what the snapshot failed with.
  void await_bytes(int64_t end) const;
  void await_confirmed() const;

  int64_t step() const { return step_; }
  const std::vector<safetensors::TensorNameDtypeAndShape>& specs() const { return specs_; }
  const ShardExtents& extents() const { return extents_; }
  const char* data() const { return image_.data(); }
  int64_t bytes() const { return safetensors::data_bytes_of(entries_); }

 private:
  struct Portion {
    std::vector<TensorToSave> parts;
    std::vector<device::Device::Copy> copies;
    int64_t bytes = 0;
    device::EventPtr left;  // null until it is sent
  };

  void lay_out(std::vector<TensorToSave> parts);
  void add(TensorToSave part, const safetensors::TensorEntry& entry);
  void send_next();
  void fail(std::exception_ptr why);

  device::Device& device_;
  int64_t step_;
  device::HostBuffer& image_;
  bool pinned_;
  std::vector<safetensors::TensorNameDtypeAndShape> specs_;
  ShardExtents extents_;
  std::vector<safetensors::TensorEntry> entries_;
  std::map<int64_t, size_t> portions_until_;  // end of a part -> number of portions with all bytes up to it
  std::vector<Portion> portions_;             // the first: what a forward changes
  std::map<const void*, size_t> portion_by_memory_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  size_t events_ = 0;  // number of portions that were sent
  bool confirmed_ = false;
  std::exception_ptr failure_;  // permanent: thrown to all that wait
};

}  // namespace memtune::state
