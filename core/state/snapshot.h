// The state of one moment, copied into host memory while training goes on.
//
//   Snapshot ── what a forward changes leaves first, and is waited for
//   send()   ── the rest leaves on Stream::out, in portions with an event each, behind what was sent before
//   await()  ── whoever updates memory waits for the portion that it is in; whoever writes the image, too
//
// Thread: the one that trains, except for await_bytes() and await_confirmed().
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

#include "core/device/device.h"
#include "core/safetensors/layout.h"
#include "core/state/manifest.h"

namespace memtune::state {

// A tensor of the state.
struct StatePart {
  safetensors::Spec spec;
  const char* data = nullptr;  // one element behind another
  bool on_device = false;
  bool changes_in_forward = false;            // else in an update alone, before which training waits for its memory
  const void* memory = nullptr;               // what `data` is in: updates ask for it by this
  std::shared_ptr<const void> owner;          // keeps `data`
  std::function<bool()> is_unchanged;         // since the parts were made; empty: nobody else writes there
  std::optional<Extent> part = std::nullopt;  // of a larger tensor; its shape is that of a row
};
int64_t bytes_of(const std::vector<StatePart>& parts);  // of a file's data
Extents extents_of(const std::vector<StatePart>& parts);

class Snapshot {
 public:
  // Takes the parts that are in host memory at once. `image` has the bytes of all of them and outlives this; `pinned`:
  // it is page-locked.
  Snapshot(device::Device& device, int64_t step, std::vector<StatePart> parts, device::HostSlab& image,
           bool pinned = true);
  // Waits for copies; a writer that waits for what was never sent is refused.
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // Of what has not been sent, whole portions of so many bytes in all. Returns at once.
  void send(int64_t most_bytes = std::numeric_limits<int64_t>::max());
  bool sent() const { return events_ == portions_.size(); }
  // How many portions have to leave until all bytes in `memory` have; 0: they have. Of one that is sent.
  size_t pending(const void* memory) const;
  // Behind it the first `portions` have left, which are not 0.
  const device::EventPtr& left(size_t portions) const { return portions_[portions - 1].left; }
  // Frees the sources whose copies are done.
  void release_sources();
  // A forward is over, or none will be: from now on parts change in updates alone. One that has changed fails it.
  void confirm();
  // There will be no forward to confirm it: whoever waits for it is thrown an Error, if it was not confirmed before.
  void abandon();
  void wait();  // until everything has left

  // Any thread. They block until bytes of the image up to `end` are there, and until they are known to be of one
  // moment.
  void await_bytes(int64_t end) const;
  void await_confirmed() const;

  int64_t step() const { return step_; }
  const std::vector<safetensors::Spec>& specs() const { return specs_; }
  const Extents& extents() const { return extents_; }
  const char* data() const { return image_.data(); }
  int64_t bytes() const { return safetensors::data_bytes_of(entries_); }

 private:
  struct Portion {
    std::vector<StatePart> parts;
    std::vector<device::Device::Copy> copies;
    int64_t bytes = 0;
    device::EventPtr left;  // once it was sent
  };

  void lay_out(std::vector<StatePart> parts);
  void add(StatePart part, const safetensors::Entry& entry);
  void send_next();
  void fail(std::exception_ptr why);

  device::Device& device_;
  int64_t step_;
  device::HostSlab& image_;
  bool pinned_;
  std::vector<safetensors::Spec> specs_;
  Extents extents_;
  std::vector<safetensors::Entry> entries_;
  std::map<int64_t, size_t> portions_until_;  // how many must have left for all bytes up to a part's end
  std::vector<Portion> portions_;             // the first: what a forward changes
  std::map<const void*, size_t> portion_by_memory_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  size_t events_ = 0;  // portions that have theirs
  bool confirmed_ = false;
  std::exception_ptr failure_;  // for good: who waits is thrown that
};

}  // namespace memtune::state
