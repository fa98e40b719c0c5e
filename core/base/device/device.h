// The device of a trial as the engines need it: streams, events, copies, host memory, memory accounting.
//
// There are three implementations: CUDA (a module loaded at run time), CPU, which emulates a device, and shapes, which
// have no data. On CPU, device memory is what the trial's tensors hold, counted by memtune's allocator. Its copy
// streams are worker threads, so copies really overlap, and missing synchronization causes real errors. No LibTorch
// here; only torch/ and cuda/ use it.
//
// Thread: the training thread, except that a HostBuffer may be freed and an Event waited for on any thread. Unless
// noted otherwise, functions throw DeviceError if the device fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace memtune::device {

// Work queues. compute is LibTorch's current stream, looked up at each use. out and in belong to the device object and
// carry copies.
enum class StreamKind { compute, out, in };

enum class CopyDirection { to_host, to_device };

// A point in a stream. It is reached when all work enqueued before record() is done. Cheap to share and keep.
class StreamEvent {
 public:
  virtual ~StreamEvent() = default;
  virtual bool done() const = 0;   // does not block
  virtual void synchronize() = 0;  // blocks the calling thread; any thread
  // True if this event is known, without a driver call, to be reached no earlier than `other`. Both are then points of
  // the same stream.
  virtual bool implies(const StreamEvent& other) const { return this == &other; }
  // Time between two events of record_timed(); both must be done.
  virtual double ms_since(const StreamEvent& earlier) const = 0;
};
using EventPtr = std::shared_ptr<StreamEvent>;

// Host memory for copies, page-locked on CUDA by default. The destructor frees it.
class HostBuffer {
 public:
  virtual ~HostBuffer() = default;
  virtual char* data() = 0;  // 4096-byte aligned
  virtual int64_t bytes() const = 0;
};

struct AllocatorStats {
  int64_t allocated = 0, peak_allocated = 0;  // held by tensors
  int64_t reserved = 0, peak_reserved = 0;    // by the allocator; on CPU equal to allocated
  // Times that it gave free segments back to the device, because a new one did not fit; PyTorch's num_alloc_retries.
  int64_t retries = 0;
};

// Keeps compute from starting work that was enqueued after it was made, until it is destroyed. The host can enqueue
// work ahead of the device meanwhile. It ends by itself after kMs, because the host may wait for that work.
class ScopedComputeStreamPause {
 public:
  static constexpr int kMs = 10;
  virtual ~ScopedComputeStreamPause() = default;
  virtual bool expired() const = 0;  // it ended by itself
};

class Device {
 public:
  virtual ~Device() = default;

  enum class Type { cpu, cuda, shapes };
  virtual Type type() const = 0;
  virtual int index() const { return 0; }  // among devices of its type
  bool emulated() const { return type() == Type::cpu; }
  virtual std::string name() const = 0;     // "NVIDIA H200", "CPU (2 cores)"
  virtual int64_t total_bytes() const = 0;  // device memory; on CPU the machine's memory

  // Allocates on the device's NUMA node. Copies of memory that is not pinned are slower and block the caller. Throws
  // OutOfHostMemoryError with the size if the system has no more.
  virtual std::unique_ptr<HostBuffer> allocate_host(int64_t bytes, bool pinned = true) = 0;

  // Enqueues a copy on `stream` and returns at once; on CPU, StreamKind::compute copies before returning. Both ranges
  // must stay valid until the copy is done; nothing is retained here.
  virtual void copy(void* to, const void* from, int64_t bytes, CopyDirection direction, StreamKind stream) = 0;

  // Enqueues several copies without an order among them. Uses one driver call if the driver supports that. Host ranges
  // must be in pinned slabs.
  struct Copy {
    void* to;
    const void* from;
    int64_t bytes;
  };
  virtual void copy_batch(std::span<const Copy> copies, CopyDirection direction, StreamKind stream) {
    for (const Copy& each : copies) copy(each.to, each.from, each.bytes, direction, stream);
  }

  virtual EventPtr record(StreamKind stream) = 0;        // does not block
  virtual EventPtr record_timed(StreamKind stream) = 0;  // for ms_since(); costs more
  // Makes `stream` wait; on CPU, StreamKind::compute blocks. Costs nothing if the stream is already ordered after the
  // event.
  virtual void wait(StreamKind stream, const EventPtr& event) = 0;
  virtual void synchronize() = 0;  // blocks until all streams are done
  virtual std::unique_ptr<ScopedComputeStreamPause> hold_compute() { return nullptr; }  // null: compute has no queue

  // For destructors and error paths. If the wait cannot be enqueued, the host waits for all streams. A device that
  // cannot be waited for is lost and runs nothing more. Errors are not reported here; the next throwing call reports
  // the same failure.
  void wait_quietly(StreamKind stream, const EventPtr& event) noexcept;
  void synchronize_quietly() noexcept;

  virtual AllocatorStats memory() const = 0;  // cheap enough to call after every op
  virtual int64_t used_bytes() const = 0;     // used on the whole device by all processes; 0: unknown. A driver call
  // Device bytes of this process beside the allocator's: context, kernels of libraries, collectives. If the driver does
  // not tell how much was used before this process used the device, memory of other processes is included. 0 on CPU. A
  // driver call.
  virtual int64_t unmanaged_bytes() const = 0;
  virtual void reset_peak() = 0;
  // Limits the allocator to `bytes` from now on; 0: no limit. Larger allocations throw c10::OutOfMemoryError.
  virtual void set_cap(int64_t bytes) = 0;
  virtual void empty_cache() = 0;

  // Limits the process to `bytes` of the device: the allocator gets what unmanaged_bytes() leaves, which shrinks while
  // kernels are loaded, so call it again after the first steps. 0: no limit.
  void limit_process(int64_t bytes);
};

}  // namespace memtune::device
