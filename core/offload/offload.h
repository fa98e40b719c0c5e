// The trip of a buffer to host memory and back.
//
//   send():       stashed ── copy out done ──> on_host          the stash owns the source until then
//   prefetch():   on_host ──────────────────> coming_back       issued in the reverse of the order of send()
//   bring_back(): any state ────────────────> returned          Buffer::resident holds the bytes
//
// Copies are ordered by events only; the host thread never waits (on the CPU device, where the calling thread is the
// compute stream, waiting is blocking). A transfer that dies in any state leaves nothing behind.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/autograd/buffer.h"
#include "core/config/plan.h"
#include "core/device/device.h"
#include "core/offload/host_pool.h"

namespace memtune::offload {

class Offload;

class Transfer {
 public:
  enum class State { stashed, on_host, coming_back, returned };

  Transfer(Offload& offload, int64_t bytes) : offload_(offload), bytes_(bytes) {}
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

 private:
  friend class Offload;
  Offload& offload_;
  int64_t bytes_;
  State state_ = State::stashed;
  HostPool::Lease lease_;
  at::Storage source_;  // stashed
  at::Storage target_;  // coming back
  device::EventPtr out_done_, in_done_;
};

class Offload {
 public:
  Offload(device::Device& device, const config::TransferSettings& settings, int64_t slab_bytes);
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  void begin_step();  // forgets the order of the step before; counters start at 0
  // Copies the buffer's storage out; returns at once. Smaller buffers than min_bytes are simply held.
  void send(const autograd::BufferPtr& buffer);
  // Sets buffer.resident; in the order of the compute stream its bytes are there.
  void bring_back(autograd::Buffer& buffer);
  // Issues copies back that come next, within prefetch_bytes and without raising the peak that was already reached.
  void prefetch();
  // Lets compute wait until every copy out is done, and frees the sources. Called where memory is needed most.
  void flush();
  // Orders compute behind the buffer's copy out: its storage is about to be overwritten.
  void before_overwrite(const autograd::Buffer& buffer);

  struct Counters {
    int64_t out_bytes = 0, in_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  const HostPool& pool() const { return pool_; }

 private:
  friend class Transfer;
  void start_back(Transfer& transfer);
  void unstash(Transfer& transfer);
  int64_t stash_limit() const;
  void retire(int64_t limit);
  void forget(Transfer& transfer);

  device::Device& device_;
  config::TransferSettings settings_;
  HostPool pool_;
  std::deque<std::weak_ptr<Transfer>> stash_;   // oldest first
  std::vector<std::weak_ptr<Transfer>> order_;  // of send(); consumed from the end by prefetch
  int64_t stash_bytes_ = 0;
  int64_t ahead_bytes_ = 0;      // coming back and not asked for yet
  int64_t largest_bytes_ = 0;    // of one transfer so far
  int64_t last_step_bytes_ = 0;  // sent in the step before; 0: not known
  int64_t ceiling_ = 0;          // the peak when this step's first copy back was due: what came later does not lift it
  Counters counters_;
};

}  // namespace memtune::offload
