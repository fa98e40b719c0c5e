// The CUDA device. Compute is LibTorch's current stream. Copy streams come from LibTorch's pool of high-priority
// streams, so that copies do not queue behind kernels.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/device/cuda/cuda_check.h"
#include "core/base/device/cuda/cuda_event.h"
#include "core/base/device/device.h"
#include "core/base/device/nvml_memory_and_process_reader.h"
#include "core/base/device/pageable_host_buffer.h"
#include "core/base/device/redundant_stream_wait_filter.h"
#include "core/base/error.h"

namespace memtune::device {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// Reuses CUDA events, because creating one is a driver call and engines record one per copy.
class EventPool {
 public:
  explicit EventPool(unsigned flags) : flags_(flags) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool() {
    for (cudaEvent_t event : free_) (void)cudaEventDestroy(event);  // fails harmlessly after CUDA has shut down
  }

  cudaEvent_t take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      cudaEvent_t event = nullptr;
      check_cuda(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreateWithFlags");
      return event;
    }
    cudaEvent_t event = free_.back();
    free_.pop_back();
    return event;
  }
  void deallocate(cudaEvent_t event) {
    std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

class CudaEvent final : public StreamEvent {
 public:
  CudaEvent(std::shared_ptr<EventPool> pool, cudaStream_t stream, RedundantStreamWaitFilter& order)
      : pool_(std::move(pool)), event_(pool_->take()), point_(order.record(stream)) {
    const cudaError_t status = cudaEventRecord(event_, stream);
    if (status != cudaSuccess) pool_->deallocate(event_);
    check_cuda(status, "cudaEventRecord");
  }
  // Streams that already wait for the event are not affected when it is recorded again.
  ~CudaEvent() override { pool_->deallocate(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool done() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  void synchronize() override { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  bool implies(const StreamEvent& other) const override {
    return point_.implies(static_cast<const CudaEvent&>(other).point_);
  }
  double ms_since(const StreamEvent& earlier) const override {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, static_cast<const CudaEvent&>(earlier).event_, event_),
               "cudaEventElapsedTime");
    return ms;
  }
  cudaEvent_t handle() const { return event_; }
  const RedundantStreamWaitFilter::Point& point() const { return point_; }

 private:
  std::shared_ptr<EventPool> pool_;  // may outlive the device
  cudaEvent_t event_;
  RedundantStreamWaitFilter::Point point_;
};

// Allocates the calling thread's new memory on one NUMA node, if the node has free memory, while this object exists.
class NumaPreference {
 public:
  explicit NumaPreference(int node) {
    if (node < 0 || node >= 64 || syscall(SYS_get_mempolicy, &policy_, before_, kNodes, nullptr, 0) != 0) return;
    const unsigned long mask = 1UL << node;
    set_ = syscall(SYS_set_mempolicy, kPreferred, &mask, 8 * sizeof mask) == 0;
  }
  ~NumaPreference() {
    if (set_) (void)syscall(SYS_set_mempolicy, policy_, before_, kNodes);
  }
  NumaPreference(const NumaPreference&) = delete;
  NumaPreference& operator=(const NumaPreference&) = delete;

 private:
  static constexpr int kPreferred = 1;  // MPOL_PREFERRED of <numaif.h>, which would require libnuma
  static constexpr int kNodes = 1024;   // the kernel requires space for all possible nodes
  unsigned long before_[kNodes / 8 / sizeof(unsigned long)] = {};  // the policy to restore
  int policy_ = 0;
  bool set_ = false;
};

// NUMA node of a device; -1: unknown, or the machine has only one.
int numa_node(int device) {
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess) return -1;
  std::string name(bus);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  int node = -1;
  std::ifstream("/sys/bus/pci/devices/" + name + "/numa_node") >> node;
  return node;
}

class PinnedHostBuffer final : public HostBuffer {
 public:
  PinnedHostBuffer(int64_t bytes, int node) : bytes_(bytes) {
    NumaPreference preference(node);
    // Adds a page, because the driver aligns small blocks to less than a page.
    const cudaError_t status = cudaHostAlloc(&block_, static_cast<size_t>(bytes) + kPage, cudaHostAllocDefault);
    if (status != cudaSuccess) {
      (void)cudaGetLastError();
      throw OutOfHostMemoryError("page-locked host memory of " + format_bytes(bytes) +
                                 " cannot be had: " + cudaGetErrorString(status));
    }
    const auto address = reinterpret_cast<uintptr_t>(block_);
    data_ = static_cast<char*>(block_) + (kPage - address % kPage) % kPage;
  }
  ~PinnedHostBuffer() override { (void)cudaFreeHost(block_); }
  PinnedHostBuffer(const PinnedHostBuffer&) = delete;
  PinnedHostBuffer& operator=(const PinnedHostBuffer&) = delete;

  char* data() override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  static constexpr size_t kPage = 4096;
  void* block_ = nullptr;
  char* data_ = nullptr;
  int64_t bytes_;
};

// Enqueues many copies with one driver call.
class CopyBatches {
 public:
  // Returns false, with nothing enqueued, if the driver lacks the call or refuses it, for example on the default
  // stream. The caller then copies one by one, which reports real errors.
  bool enqueue(std::span<const Device::Copy> copies, cudaStream_t stream) {
    if (!supported_) return false;
    to_.clear();
    from_.clear();
    bytes_.clear();
    for (const Device::Copy& copy : copies) {
      if (copy.bytes == 0) continue;  // the driver refuses empty copies
      to_.push_back(copy.to);
      from_.push_back(copy.from);
      bytes_.push_back(static_cast<size_t>(copy.bytes));
    }
    if (to_.empty()) return true;
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    size_t first = 0;
    const cudaError_t status =
        cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), to_.size(), &attributes, &first, 1, stream);
    supported_ = status != cudaErrorNotSupported && status != cudaErrorCallRequiresNewerDriver;
    if (status != cudaSuccess) (void)cudaGetLastError();
    return status == cudaSuccess;
  }

 private:
  bool supported_ = true;
  std::vector<void*> to_;
  std::vector<const void*> from_;
  std::vector<size_t> bytes_;
};

// A function of the host in the stream, which returns when it is released.
class CudaComputeHold final : public ScopedComputeStreamPause {
 public:
  explicit CudaComputeHold(cudaStream_t stream) {
    auto state = std::make_unique<std::shared_ptr<State>>(state_);
    check_cuda(cudaLaunchHostFunc(stream, &wait, state.get()), "cudaLaunchHostFunc");
    (void)state.release();  // wait() owns it
  }
  ~CudaComputeHold() override {
    const std::lock_guard lock(state_->mutex);
    state_->released = true;
    state_->changed.notify_one();
  }
  CudaComputeHold(const CudaComputeHold&) = delete;
  CudaComputeHold& operator=(const CudaComputeHold&) = delete;

  bool expired() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->expired;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool released = false, expired = false;
  };

  // Thread: the driver's.
  static void CUDART_CB wait(void* data) {
    const std::unique_ptr<std::shared_ptr<State>> owned(static_cast<std::shared_ptr<State>*>(data));
    State& state = **owned;
    std::unique_lock lock(state.mutex);
    state.expired = !state.changed.wait_for(lock, std::chrono::milliseconds(kMs), [&] { return state.released; });
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

std::string device_name(int index) { return "cuda:" + std::to_string(index); }

class CudaDevice final : public Device {
 public:
  // `used_before`: bytes of the device that were used before this process had a context on it.
  CudaDevice(c10::DeviceIndex index, std::optional<int64_t> used_before)
      : index_(index),
        used_before_(used_before),
        out_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index)),
        in_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index)),
        events_(std::make_shared<EventPool>(cudaEventDisableTiming)),
        timed_events_(std::make_shared<EventPool>(cudaEventDefault)) {
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    total_bytes_ = static_cast<int64_t>(total);
    cudaDeviceProp properties;
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    name_ = properties.name;
    numa_node_ = numa_node(index);
  }
  // Waits, because copies in flight use memory that the engines are about to free.
  ~CudaDevice() override { (void)cudaDeviceSynchronize(); }

  Type type() const override { return Type::cuda; }
  int index() const override { return index_; }
  std::string name() const override { return name_; }
  int64_t total_bytes() const override { return total_bytes_; }

  std::unique_ptr<HostBuffer> allocate_host(int64_t bytes, bool pinned = true) override {
    if (!pinned) return std::make_unique<PageableHostBuffer>(bytes);
    return std::make_unique<PinnedHostBuffer>(bytes, numa_node_);
  }

  void copy(void* to, const void* from, int64_t bytes, CopyDirection direction, StreamKind stream) override {
    if (bytes == 0) return;
    const auto kind = direction == CopyDirection::to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, handle(stream)), "cudaMemcpyAsync");
  }
  void copy_batch(std::span<const Copy> copies, CopyDirection direction, StreamKind stream) override {
    if (copies.size() > 1 && batches_.enqueue(copies, handle(stream))) return;
    for (const Copy& each : copies) copy(each.to, each.from, each.bytes, direction, stream);
  }
  EventPtr record(StreamKind stream) override { return std::make_shared<CudaEvent>(events_, handle(stream), order_); }
  EventPtr record_timed(StreamKind stream) override {
    return std::make_shared<CudaEvent>(timed_events_, handle(stream), order_);
  }
  void wait(StreamKind stream, const EventPtr& event) override {
    const auto& cuda_event = static_cast<const CudaEvent&>(*event);
    const cudaStream_t by = handle(stream);
    if (order_.is_ordered_after(by, cuda_event.point())) return;
    check_cuda(cudaStreamWaitEvent(by, cuda_event.handle(), 0), "cudaStreamWaitEvent");
    order_.note_wait(by, cuda_event.point());
  }
  void synchronize() override { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  std::unique_ptr<ScopedComputeStreamPause> hold_compute() override {
    return std::make_unique<CudaComputeHold>(handle(StreamKind::compute));
  }

  AllocatorStats memory() const override {
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = allocator::getDeviceStats(index_);
    const auto& allocated = stats.allocated_bytes[kAll];
    const auto& reserved = stats.reserved_bytes[kAll];
    return {allocated.current, allocated.peak, reserved.current, reserved.peak, stats.num_alloc_retries};
  }
  int64_t used_bytes() const override {
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<int64_t>(total - free);
  }
  int64_t unmanaged_bytes() const override {
    const std::optional<int64_t> used = nvml_.used_bytes(device_name(index_));
    const int64_t own = used && used_before_ ? *used - *used_before_ : used_bytes();
    return std::max<int64_t>(0, own - memory().reserved);
  }
  void reset_peak() override { allocator::resetPeakStats(index_); }

  // The caching allocator limits reserved bytes to a fraction of the device. Half a byte is added because it rounds
  // down, which could cost a whole segment.
  void set_cap(int64_t bytes) override {
    const double share = (static_cast<double>(bytes) + 0.5) / static_cast<double>(total_bytes_);
    allocator::setMemoryFraction(bytes == 0 ? 1.0 : std::min(share, 1.0), index_);
  }
  void empty_cache() override { allocator::emptyCache(); }

 private:
  cudaStream_t handle(StreamKind stream) const {
    switch (stream) {
      case StreamKind::out: return out_.stream();
      case StreamKind::in: return in_.stream();
      case StreamKind::compute: break;
    }
    return c10::cuda::getCurrentCUDAStream(index_).stream();
  }

  c10::DeviceIndex index_;
  std::optional<int64_t> used_before_;
  NvmlMemoryAndProcessReader nvml_;
  c10::cuda::CUDAStream out_, in_;
  std::shared_ptr<EventPool> events_, timed_events_;
  RedundantStreamWaitFilter order_;
  CopyBatches batches_;
  int64_t total_bytes_ = 0;
  int numa_node_ = -1;
  std::string name_;
};

void require_device(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    throw DeviceError("no CUDA device: there is no NVIDIA driver, or it is older than CUDA 13 (580) needs");
  }
  if (status != cudaSuccess) throw DeviceError(std::string("no CUDA device: ") + cudaGetErrorString(status));
  if (index >= count) {
    throw DeviceError("no CUDA device " + std::to_string(index) + ": there " +
                      (count == 1 ? "is only cuda:0" : "are " + std::to_string(count)));
  }
}

}  // namespace

cudaEvent_t handle_of(const StreamEvent& event) { return static_cast<const CudaEvent&>(event).handle(); }

}  // namespace memtune::device

extern "C" __attribute__((visibility("default"))) memtune::device::Device* memtune_make_cuda_device(int index) {
  using memtune::DeviceError;
  memtune::device::require_device(index);
  try {
    if (!at::hasCUDA())
      throw DeviceError("no CUDA device: LibTorch was asked about CUDA before its CUDA half was loaded");
    const auto used_before =
        memtune::device::NvmlMemoryAndProcessReader().used_bytes(memtune::device::device_name(index));
    at::globalContext().lazyInitDevice(c10::kCUDA);
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
    return new memtune::device::CudaDevice(static_cast<c10::DeviceIndex>(index), used_before);
  } catch (const c10::Error& error) {
    throw DeviceError(std::string("no CUDA device: LibTorch says: ") + error.what_without_backtrace());
  }
}
