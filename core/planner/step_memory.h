// The device's memory of a step on paper: blocks that the modelled values lie in, each for as long as somebody refers
// to it, beside what else the recorded step had at that moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace memtune::planner {

class StepMemory {
 public:
  static constexpr int kNone = -1;

  // Blocks 0.. are the recorded storages, which nobody refers to yet.
  explicit StepMemory(const std::vector<int64_t>& storage_bytes) {
    for (const int64_t bytes : storage_bytes) blocks_.push_back({bytes, 0});
  }

  int make(int64_t bytes) {  // referred to once
    blocks_.push_back({bytes, 0});
    const int block = static_cast<int>(blocks_.size()) - 1;
    return take(block);
  }
  int take(int block) {
    if (blocks_[block].references++ == 0) held_bytes_ += blocks_[block].bytes;
    return block;
  }
  void drop(int block) {
    if (block != kNone && --blocks_[block].references == 0) held_bytes_ -= blocks_[block].bytes;
  }
  bool alive(int block) const { return blocks_[block].references > 0; }
  int64_t held_bytes() const { return held_bytes_; }

  void set_beside(int64_t bytes) { beside_bytes_ = bytes; }  // what is no modelled value's
  int64_t allocated() const { return beside_bytes_ + held_bytes_; }
  // `bytes` more were taken for a while.
  void reach(int64_t bytes = 0) { stretch_peak_ = std::max(stretch_peak_, allocated() + bytes); }
  int64_t stretch_peak() const { return stretch_peak_; }  // since begin_stretch
  void begin_stretch() {
    peak_ = std::max(peak_, stretch_peak_);
    stretch_peak_ = allocated();
  }
  int64_t peak() const { return std::max(peak_, stretch_peak_); }

 private:
  struct Block {
    int64_t bytes;
    int references;
  };
  std::vector<Block> blocks_;
  int64_t held_bytes_ = 0, beside_bytes_ = 0;
  int64_t stretch_peak_ = 0, peak_ = 0;
};

}  // namespace memtune::planner
