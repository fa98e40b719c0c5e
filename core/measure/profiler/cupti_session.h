// A profiler that reads CUPTI's activity records. Part of the CUDA module.
//
// CUPTI requests empty buffers and returns filled ones, from threads of its own. They are parsed at the end, so that
// traced steps cost little more than the records themselves.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/measure/profiler/device_activity_profiler.h"

namespace memtune::profiler {

// Buffers are held here (empty or filled) or by CUPTI. Never destroyed: CUPTI may hold some until the process ends.
class CuptiBufferPool {
 public:
  static constexpr size_t kBytes = size_t{8} << 20;

  struct Filled {
    std::unique_ptr<uint8_t[]> data;
    size_t valid_bytes = 0;
  };

  static CuptiBufferPool& get();
  void reserve(size_t count);                    // keeps so many zeroed buffers ready
  uint8_t* give();                               // to CUPTI; null if out of memory
  void take(uint8_t* data, size_t valid_bytes);  // from CUPTI
  std::vector<Filled> filled();                  // returns and clears them
  void put_back(std::vector<Filled> buffers);    // zeroes them for the next session
  void count_dropped(size_t records);
  int64_t dropped();  // returns and resets the number

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<uint8_t[]>> empty_, given_;
  std::vector<Filled> filled_;
  int64_t dropped_ = 0;
};

class CuptiProfiler final : public DeviceActivityProfiler {
 public:
  // Without tags, events have no part and no value, and recording costs less.
  explicit CuptiProfiler(bool tags = true) : tags_wanted_(tags) {}
  ~CuptiProfiler() override;
  void start() override;
  int64_t now_ns() const override;
  void tag_part(uint32_t part) override { tag(kPart, part); }
  void tag_value(trace::ValueId value) override { tag(kValue, value ? static_cast<uint32_t>(value.index()) + 1 : 0); }
  std::vector<uint32_t> finish(trace::Trace& trace) override;

 private:
  enum Tag : size_t { kPart, kValue };  // CUPTI's tags: numbers from 1, 0 for none
  struct Record {
    trace::TraceEvent event;  // track not set
    uint32_t stream = 0;
  };

  std::span<const CUpti_ActivityKind> kinds() const;
  void stop() noexcept;  // disables what start enabled
  void tag(Tag tag, uint32_t number);
  void read(const CuptiBufferPool::Filled& buffer, trace::Trace& trace);
  void read(const CUpti_Activity& activity, trace::Trace& trace);
  void add(trace::EventKind kind, bool pageable, uint32_t stream, uint32_t name, uint64_t start, uint64_t end,
           uint64_t bytes, uint32_t correlation, trace::Trace& trace);
  std::vector<uint32_t> place(trace::Trace& trace);  // assigns tracks to the records and appends them

  bool tags_wanted_;
  bool recording_ = false;
  uint64_t base_ = 0;
  std::vector<Record> records_;
  std::unordered_map<std::string, uint32_t> names_;   // mangled name -> index into Trace::names
  uint32_t tags_[2] = {0, 0};                         // current numbers, by Tag
  std::unordered_map<uint32_t, uint32_t> tagged_[2];  // by Tag: correlation -> number
};

}  // namespace memtune::profiler
