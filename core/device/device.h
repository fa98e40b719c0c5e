// The device a trial runs on, as the engines need it: streams, events, copies, host memory, memory accounting.
//
// Two implementations. CUDA (a module loaded at run time) and CPU, where the processor plays the device: its bytes are
// what the trial's tensors hold, counted by an allocator of ours, and the two copy streams are worker threads, so
// copies overlap and misordered ones go wrong for real. Free of LibTorch; torch/ and cuda/ are the parts that are not.
//
// Thread: everything is called from the thread that trains, except that a HostSlab may be freed anywhere
// and an Event waited for anywhere. Whatever says nothing else throws DeviceError when the device fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace memtune::device {

// Queues of work. compute is the stream the model's ops run on *now* (looked up at every use); out and in belong to the
// device object and carry copies.
enum class Stream { compute, out, in };

enum class Direction { to_host, to_device };

// A point in a stream, reached when all work enqueued there before record() is done. Shared: cheap to keep.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;   // returns at once
  virtual void synchronize() = 0;  // the calling thread waits; any thread may
  // Whether `other` is reached whenever this one is, as far as that is known without asking: both are points of one
  // stream, and this one is not the earlier.
  virtual bool implies(const Event& other) const { return this == &other; }
  // Time between two events of record_timed() that are done.
  virtual double ms_since(const Event& earlier) const = 0;
};
using EventPtr = std::shared_ptr<Event>;

// Host memory for copies; page-locked on CUDA unless asked otherwise. Freed with the object.
class HostSlab {
 public:
  virtual ~HostSlab() = default;
  virtual char* data() = 0;  // 4096-byte aligned
  virtual int64_t bytes() const = 0;
};

struct MemoryUse {
  int64_t allocated = 0, peak_allocated = 0;  // held by tensors
  int64_t reserved = 0, peak_reserved = 0;    // held by the allocator; on CPU as allocated
};

class Device {
 public:
  virtual ~Device() = default;

  enum class Type { cpu, cuda };
  virtual Type type() const = 0;
  virtual int index() const { return 0; }  // among those of its type
  bool emulated() const { return type() == Type::cpu; }
  virtual std::string name() const = 0;     // "NVIDIA H200", "CPU (2 cores)"
  virtual int64_t total_bytes() const = 0;  // of device memory; on CPU the machine's

  // On the device's NUMA node where there are several. Not pinned: copies are slower and hold up the caller.
  // Throws OutOfHostMemory with the size when the system refuses.
  virtual std::unique_ptr<HostSlab> allocate_host(int64_t bytes, bool pinned = true) = 0;

  // Enqueues one copy on `stream` and returns at once (on CPU with Stream::compute: copies before it returns).
  // Both ranges must stay valid until the stream has passed; nothing is retained here.
  virtual void copy(void* to, const void* from, int64_t bytes, Direction direction, Stream stream) = 0;

  // As copy() of each, in no order among themselves, for what one call of the driver costs where it has such a call.
  // The host's ranges lie in pinned slabs.
  struct Copy {
    void* to;
    const void* from;
    int64_t bytes;
  };
  virtual void copy_batch(std::span<const Copy> copies, Direction direction, Stream stream) {
    for (const Copy& each : copies) copy(each.to, each.from, each.bytes, direction, stream);
  }

  virtual EventPtr record(Stream stream) = 0;        // returns at once
  virtual EventPtr record_timed(Stream stream) = 0;  // the same, dearer: for ms_since()
  // `stream` waits; on CPU compute waits by blocking. Cheap where the stream stands behind the event anyway.
  virtual void wait(Stream stream, const EventPtr& event) = 0;
  virtual void synchronize() = 0;  // the calling thread waits for all streams

  // For destructors and after a failure: what cannot be ordered is waited for, and a device that cannot be waited for
  // is lost and runs nothing any more. Nothing is told: a call that may throw meets the same failure.
  void wait_quietly(Stream stream, const EventPtr& event) noexcept;
  void synchronize_quietly() noexcept;

  virtual MemoryUse memory() const = 0;    // cheap: may be asked after every op
  virtual int64_t used_bytes() const = 0;  // on the whole device, by every process; 0: not known. A driver call
  virtual void reset_peak() = 0;
  // From now on at most `bytes` (0: no cap); beyond it allocations throw c10::OutOfMemoryError.
  virtual void set_cap(int64_t bytes) = 0;
  virtual void empty_cache() = 0;
};

}  // namespace memtune::device
