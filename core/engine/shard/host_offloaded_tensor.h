// A tensor whose bytes are on the device only while they are used. Host memory keeps them meanwhile. Copies run on the
// copy streams and overlap with compute.
//
//   host    | bytes |               | new bytes |
//   copies      load ->          store ->
//   device           | bytes, used, written  | freed
//
// Thread: the training thread.
#pragma once

#include "core/engine/shard/pinned_tensor_allocator_and_copier.h"

namespace memtune::shard {

class HostOffloadedTensor {
 public:
  // `row`: flat, on the device, alone in its storage, which stays the same from here on. Takes its bytes to host
  // memory, waits for that, and frees them on the device. `host` and `device` must outlive this. Throws
  // OutOfHostMemoryError.
  HostOffloadedTensor(const at::Tensor& row, PinnedTensorAllocatorAndCopier& host, device::Device& device);

  void load();       // starts the copy to the device, unless the bytes are there or on their way
  void make_room();  // only allocates bytes; their contents are undefined
  void wait();       // later compute work finds the bytes loaded
  // Starts the copy to host memory, behind the compute work queued so far. Who writes the bytes meanwhile must store
  // them again.
  void store();
  void free();    // frees the bytes on the device; if a store runs, settle() does
  void settle();  // compute waits for the running store
  // Waits for all copies and frees the bytes on the device; for destructors and after a failure.
  void stop() noexcept;

  bool on_device() const { return row_.storage().nbytes() > 0; }
  bool storing() const { return stored_ != nullptr; }
  int64_t bytes() const { return static_cast<int64_t>(on_host_.nbytes()); }
  bool owns(const at::Tensor& view) const { return view.has_storage() && view.storage().is_alias_of(row_.storage()); }
  at::Tensor on_host(const at::Tensor& view) const;  // the same view of the bytes in host memory

 private:
  at::Tensor row_, on_host_;
  device::Device* device_;
  device::EventPtr loaded_, stored_;  // of running copies
  bool free_later_ = false;
};

}  // namespace memtune::shard
