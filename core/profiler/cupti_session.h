// CUPTI's activity records as a profiler. Part of the CUDA module.
//
// CUPTI asks for empty buffers and hands filled ones back, from threads of its own; they are parsed at the end, so that
// the traced steps pay for little more than the records themselves.
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

#include "core/profiler/profiler.h"

namespace memtune::profiler {

// Buffers are with us (empty or filled) or with CUPTI. Never destroyed: CUPTI may hold some until the process ends.
class CuptiBuffers {
 public:
  static constexpr size_t kBytes = size_t{8} << 20;

  struct Filled {
    std::unique_ptr<uint8_t[]> data;
    size_t valid_bytes = 0;
  };

  static CuptiBuffers& get();
  void reserve(size_t count);                    // zeroed buffers at hand
  uint8_t* give();                               // to CUPTI; null when there is no memory
  void take(uint8_t* data, size_t valid_bytes);  // from CUPTI
  std::vector<Filled> filled();                  // and forgets them
  void put_back(std::vector<Filled> buffers);    // zeroed again, for the next session
  void count_dropped(size_t records);
  int64_t dropped();  // and starts at 0 again

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<uint8_t[]>> empty_, given_;
  std::vector<Filled> filled_;
  int64_t dropped_ = 0;
};

class CuptiProfiler final : public Profiler {
 public:
  // Without tags records tell when, not what for, and cost less.
  explicit CuptiProfiler(bool tags = true) : tags_wanted_(tags) {}
  ~CuptiProfiler() override;
  void start() override;
  int64_t now_ns() const override;
  void tag_part(uint32_t part) override { tag(kPart, part); }
  void tag_value(trace::ValueId value) override { tag(kValue, value ? static_cast<uint32_t>(value.index()) + 1 : 0); }
  std::vector<uint32_t> finish(trace::Trace& trace) override;

 private:
  enum Tag : size_t { kPart, kValue };  // as CUPTI has them: numbers from 1, 0 for none
  struct Record {
    trace::Event event;  // track not set
    uint32_t stream = 0;
  };

  std::span<const CUpti_ActivityKind> kinds() const;
  void stop() noexcept;  // disables what start enabled
  void tag(Tag tag, uint32_t number);
  void read(const CuptiBuffers::Filled& buffer, trace::Trace& trace);
  void read(const CUpti_Activity& activity, trace::Trace& trace);
  void add(trace::EventKind kind, bool pageable, uint32_t stream, uint32_t name, uint64_t start, uint64_t end,
           uint64_t bytes, uint32_t correlation, trace::Trace& trace);
  std::vector<uint32_t> place(trace::Trace& trace);  // gives the records their tracks and appends them

  bool tags_wanted_;
  bool recording_ = false;
  uint64_t base_ = 0;
  std::vector<Record> records_;
  std::unordered_map<std::string, uint32_t> names_;   // mangled to Trace::names
  uint32_t tags_[2] = {0, 0};                         // current, by Tag
  std::unordered_map<uint32_t, uint32_t> tagged_[2];  // by Tag: correlation to number
};

}  // namespace memtune::profiler
