#include "core/measure/profiler/cupti_session.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "core/base/device/cuda/cuda_check.h"
#include "core/base/error.h"
#include "core/measure/profiler/kernel_name.h"

namespace memtune::profiler {
namespace {

constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    // For tags: CUPTI reports them for API calls that it records.
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};
constexpr size_t kKindsWithoutTags = 3;
constexpr CUpti_ExternalCorrelationKind kTagKinds[] = {CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                       CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1};
constexpr size_t kBuffersAtHand = 4;  // about 35 000 kernels each

void check_cupti(CUptiResult result, const std::string& call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  (void)cuptiGetResultString(result, &text);
  std::string message = call + ": " + (text ? text : "error " + std::to_string(result));
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    message += "; another tool (Nsight, a debugger, a profiler) holds CUPTI in this process";
  }
  throw DeviceError(message);
}

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = CuptiBufferPool::get().give();
  *size = *buffer ? CuptiBufferPool::kBytes : 0;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
  CuptiBufferPool::get().take(buffer, valid_bytes);
  size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
    CuptiBufferPool::get().count_dropped(dropped);
  }
}

void register_callbacks() {
  static const CUptiResult result = [] {
    uint8_t zeroed = 1;  // buffers are zero, so CUPTI need not clear them on the training thread
    size_t size = sizeof zeroed;
    (void)cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
    return cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
  }();
  check_cupti(result, "cuptiActivityRegisterCallbacks");
}

// Page-locked and pageable copies have the same kind. The kind of the host memory distinguishes them.
struct CopyKind {
  trace::EventKind kind;
  bool pageable;
  const char* name;
};
CopyKind copy_kind(const CUpti_ActivityMemcpy6& copy) {
  switch (copy.copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: {
      const bool pageable = copy.dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
      return {trace::EventKind::copy_out, pageable, pageable ? "copy out, pageable" : "copy out"};
    }
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: {
      const bool pageable = copy.srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
      return {trace::EventKind::copy_in, pageable, pageable ? "copy in, pageable" : "copy in"};
    }
    default: return {trace::EventKind::copy_device, false, "copy on device"};
  }
}

// A stream is named after its most significant activity; a smaller number is more significant.
int role_rank(trace::EventKind kind) {
  if (kind == trace::EventKind::kernel) return 0;
  if (kind == trace::EventKind::copy_out) return 1;
  if (kind == trace::EventKind::copy_in) return 2;
  return kind == trace::EventKind::collective ? 3 : 4;
}
constexpr trace::TrackRole kRoles[] = {trace::TrackRole::compute, trace::TrackRole::copy_out, trace::TrackRole::copy_in,
                                       trace::TrackRole::collectives, trace::TrackRole::stream};

trace::EventKind kind_of_kernel(const std::string& name) {
  return is_collective(name) ? trace::EventKind::collective : trace::EventKind::kernel;
}

}  // namespace

CuptiBufferPool& CuptiBufferPool::get() {
  static auto* buffers = new CuptiBufferPool;
  return *buffers;
}

void CuptiBufferPool::reserve(size_t count) {
  std::lock_guard lock(mutex_);
  while (empty_.size() < count) empty_.push_back(std::make_unique<uint8_t[]>(kBytes));
}

uint8_t* CuptiBufferPool::give() {
  std::lock_guard lock(mutex_);
  try {
    if (empty_.empty()) empty_.push_back(std::make_unique<uint8_t[]>(kBytes));
    filled_.reserve(filled_.size() + given_.size() + 1);  // so that take() never allocates
    given_.push_back(nullptr);
    given_.back() = std::move(empty_.back());
    empty_.pop_back();
    return given_.back().get();
  } catch (const std::bad_alloc&) {
    return nullptr;  // CUPTI drops records and counts them
  }
}

void CuptiBufferPool::take(uint8_t* data, size_t valid_bytes) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(given_.begin(), given_.end(), [&](const auto& buffer) { return buffer.get() == data; });
  if (found == given_.end()) return;
  filled_.push_back({std::move(*found), valid_bytes});
  given_.erase(found);
}

std::vector<CuptiBufferPool::Filled> CuptiBufferPool::filled() {
  std::lock_guard lock(mutex_);
  return std::exchange(filled_, {});
}

void CuptiBufferPool::put_back(std::vector<Filled> buffers) {
  std::lock_guard lock(mutex_);
  for (auto& buffer : buffers) {
    std::memset(buffer.data.get(), 0, kBytes);
    empty_.push_back(std::move(buffer.data));
  }
}

void CuptiBufferPool::count_dropped(size_t records) {
  std::lock_guard lock(mutex_);
  dropped_ += static_cast<int64_t>(records);
}

int64_t CuptiBufferPool::dropped() {
  std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

CuptiProfiler::~CuptiProfiler() { stop(); }

std::span<const CUpti_ActivityKind> CuptiProfiler::kinds() const {
  return std::span(kKinds).first(tags_wanted_ ? std::size(kKinds) : kKindsWithoutTags);
}

void CuptiProfiler::start() {
  auto& buffers = CuptiBufferPool::get();
  buffers.reserve(kBuffersAtHand);
  register_callbacks();
  device::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // keeps earlier work out of the trace
  recording_ = true;
  try {
    for (const auto kind : kinds()) check_cupti(cuptiActivityEnable(kind), "cuptiActivityEnable");
    check_cupti(cuptiGetTimestamp(&base_), "cuptiGetTimestamp");
  } catch (...) {
    stop();
    throw;
  }
}

void CuptiProfiler::stop() noexcept {
  if (!std::exchange(recording_, false)) return;
  for (const auto kind : kinds()) (void)cuptiActivityDisable(kind);
}

int64_t CuptiProfiler::now_ns() const {
  uint64_t now = 0;
  check_cupti(cuptiGetTimestamp(&now), "cuptiGetTimestamp");
  return static_cast<int64_t>(now - base_);
}

void CuptiProfiler::tag(Tag index, uint32_t number) {
  uint32_t& current = tags_[index];
  if (!recording_ || !tags_wanted_ || current == number) return;
  uint64_t last = 0;
  if (current != 0)
    check_cupti(cuptiActivityPopExternalCorrelationId(kTagKinds[index], &last),
                "cuptiActivityPopExternalCorrelationId");
  current = number;
  if (number != 0)
    check_cupti(cuptiActivityPushExternalCorrelationId(kTagKinds[index], number),
                "cuptiActivityPushExternalCorrelationId");
}

std::vector<uint32_t> CuptiProfiler::finish(trace::Trace& trace) {
  for (const Tag index : {kPart, kValue}) tag(index, 0);
  device::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_cupti(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  stop();
  check_cupti(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");

  auto buffers = CuptiBufferPool::get().filled();
  for (const auto& buffer : buffers) read(buffer, trace);
  CuptiBufferPool::get().put_back(std::move(buffers));
  trace.lost_records += CuptiBufferPool::get().dropped();
  return place(trace);
}

void CuptiProfiler::read(const CuptiBufferPool::Filled& buffer, trace::Trace& trace) {
  CUpti_Activity* activity = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  while (buffer.valid_bytes > 0 &&
         (result = cuptiActivityGetNextRecord(buffer.data.get(), buffer.valid_bytes, &activity)) == CUPTI_SUCCESS) {
    read(*activity, trace);
  }
  // Any other result means an unreadable record. The records after it are lost too.
  if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_MAX_LIMIT_REACHED) ++trace.lost_records;
}

void CuptiProfiler::read(const CUpti_Activity& activity, trace::Trace& trace) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(activity);
      const auto [name, added] = names_.try_emplace(kernel.name ? kernel.name : "");
      if (added) name->second = trace.name(kernel_name(kernel.name));
      add(kind_of_kernel(trace.names[name->second]), false, kernel.streamId, name->second, kernel.start, kernel.end, 0,
          kernel.correlationId, trace);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(activity);
      const auto [kind, pageable, name] = copy_kind(copy);
      add(kind, pageable, copy.streamId, trace.name(name), copy.start, copy.end, copy.bytes, copy.correlationId, trace);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(activity);
      add(trace::EventKind::memset, false, set.streamId, trace.name("memset"), set.start, set.end, set.bytes,
          set.correlationId, trace);
      break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& tagged = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(activity);
      const auto number = static_cast<uint32_t>(tagged.externalId);
      tagged_[tagged.externalKind == kTagKinds[0] ? 0 : 1][tagged.correlationId] = number;
      break;
    }
    default: break;
  }
}

void CuptiProfiler::add(trace::EventKind kind, bool pageable, uint32_t stream, uint32_t name, uint64_t start,
                        uint64_t end, uint64_t bytes, uint32_t correlation, trace::Trace& trace) {
  if (start == 0 || end < start) {  // CUPTI had no memory for the times
    ++trace.lost_records;
    return;
  }
  if (end < base_) return;  // from before start()
  Record record;
  record.event.kind = kind;
  record.event.pageable = pageable;
  record.event.name = name;
  record.event.start_ns = static_cast<int64_t>(start - base_);
  record.event.end_ns = static_cast<int64_t>(end - base_);
  record.event.bytes = static_cast<int64_t>(bytes);
  record.event.correlation = correlation;
  record.stream = stream;
  records_.push_back(record);
}

std::vector<uint32_t> CuptiProfiler::place(trace::Trace& trace) {
  std::map<uint32_t, int> ranks;  // by stream
  for (const auto& record : records_) {
    const int rank = role_rank(record.event.kind);
    const auto [entry, added] = ranks.try_emplace(record.stream, rank);
    if (!added) entry->second = std::min(entry->second, rank);
  }
  std::map<uint32_t, uint32_t> tracks;
  for (int rank = 0; rank < static_cast<int>(std::size(kRoles)); ++rank) {
    for (const auto& [stream, of] : ranks) {
      if (of == rank) tracks[stream] = trace.track({kRoles[rank], static_cast<int32_t>(stream)});
    }
  }
  std::stable_sort(records_.begin(), records_.end(),
                   [](const Record& a, const Record& b) { return a.event.start_ns < b.event.start_ns; });
  std::vector<uint32_t> parts;
  for (auto& record : records_) {
    const auto tagged = [&](Tag index) {
      const auto& numbers = tagged_[index];
      const auto found = numbers.find(static_cast<uint32_t>(record.event.correlation));
      return found == numbers.end() ? 0 : found->second;
    };
    record.event.track = tracks[record.stream];
    if (const uint32_t value = tagged(kValue); value > 0) record.event.value = trace::ValueId(value - 1);
    trace.events.push_back(record.event);
    parts.push_back(tagged(kPart));
  }
  records_.clear();
  names_.clear();
  for (auto& numbers : tagged_) numbers.clear();
  return parts;
}

}  // namespace memtune::profiler

extern "C" __attribute__((visibility("default"))) memtune::profiler::DeviceActivityProfiler*
memtune_make_cupti_profiler() {
  return new memtune::profiler::CuptiProfiler;
}
