// A synthetic, reproducible trace of a GPU trial: steps of a decoder. The activations follow a mixed strategy, or all
// stay on the device ("none").
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/record/trace/trace_event.h"

namespace memtune::test {

class MadeUpTrace {
 public:
  MadeUpTrace(const std::string& strategy, int blocks, int steps) : mixed_(strategy != "none"), blocks_(blocks) {
    trace_.strategy = strategy;
    trace_.device = "NVIDIA H200";
    trace_.budget_bytes = 16 * kGiB;
    hold(parameters_, 2 * kGiB);
    hold({MemoryOwnerKind::optimizer, "optimizer"}, 4 * kGiB);
    hold({MemoryOwnerKind::inputs, "inputs"}, 1 << 20);
    for (int block = 0; block < blocks_; ++block) add_values(block);
    for (int step = 0; step < steps; ++step) run_step();
  }
  trace::Trace take() && {
    std::stable_sort(trace_.events.begin(), trace_.events.end(),
                     [](const trace::TraceEvent& a, const trace::TraceEvent& b) { return a.start_ns < b.start_ns; });
    return std::move(trace_);
  }

 private:
  using EventKind = trace::EventKind;
  using MemoryOwnerKind = trace::MemoryOwnerKind;
  using Pass = trace::Pass;
  using TraceRegionKey = trace::TraceRegionKey;
  using TrackRole = trace::TrackRole;
  using ValueId = trace::ValueId;
  static constexpr int64_t kGiB = int64_t{1} << 30, kMiB = 1 << 20, kMs = 1'000'000;
  struct Op {
    const char* name;
    int64_t mib, us;
    const char* place;
  };
  static constexpr std::array<Op, 5> kOps = {{{"norm", 64, 90, "recompute"},
                                              {"attention", 64, 1300, "host"},
                                              {"up", 256, 1500, "keep"},
                                              {"silu", 256, 160, "recompute"},
                                              {"down", 64, 1450, "disk"}}};

  static std::string region(int block) { return "layers." + std::to_string(block); }

  void add_values(int block) {
    for (const Op& op : kOps) {
      const std::string place = !mixed_ ? "keep" : block + 1 == blocks_ ? "keep" : op.place;
      const std::string reason = place == "host" ? "dear to recompute for its size" : "";
      trace_.values.push_back({region(block) + " " + op.name, region(block), place, reason, op.mib * kMiB, block});
    }
  }

  trace::TraceEvent& add(EventKind kind, const trace::Track& track, const std::string& name, int64_t start, int64_t end,
                         int64_t bytes = 0, ValueId value = {}) {
    trace_.events.push_back({kind, trace_.track(track), trace_.name(name), start, end, bytes, 0, value});
    if (kind == EventKind::kernel || kind == EventKind::copy_out || kind == EventKind::copy_in)
      trace_.events.back().correlation = trace_.events.size();
    return trace_.events.back();
  }

  void add(const TraceRegionKey& region, TrackRole role, const std::string& name, int64_t start, int64_t end) {
    add(EventKind::region, {role}, name, start, end).region = region;
  }

  static trace::MemoryOwner owner_of(int block) { return {MemoryOwnerKind::block, region(block), block}; }

  void sample(int64_t work_space = 0) {
    int64_t held = work_space;
    for (const auto& [owner, bytes] : held_) held += bytes;
    trace_.memory.push_back({now_, held});
  }

  void hold(const trace::MemoryOwner& owner, int64_t change) {
    auto found = std::ranges::find(trace_.owners, owner.name, &trace::MemoryOwner::name);
    if (found == trace_.owners.end()) found = trace_.owners.insert(trace_.owners.end(), owner);
    const auto index = static_cast<uint32_t>(found - trace_.owners.begin());
    trace_.owned.push_back({now_, index, held_[owner.name] += change});
    sample();
  }

  void kernel(const std::string& name, int64_t us, ValueId value = {}) {
    add(EventKind::op, {TrackRole::ops}, "aten::" + name, now_ - 40'000, now_ - 20'000);
    sample(96 * kMiB);
    add(EventKind::kernel, kCompute, name, now_, now_ + us * 1000, 0, value);
    now_ += us * 1000;
    sample();
  }

  // A copy starts when its lane is free; disk requests run in parallel. Returns the end.
  int64_t move(EventKind kind, const trace::Track& track, ValueId value, int64_t from, double gb_per_s) {
    const trace::TracedActivationPlacement& what = trace_.value(value);
    const int64_t start = on_device(track.role) ? std::max(from, free_at_[track.role]) : from;
    const int64_t end = start + static_cast<int64_t>(static_cast<double>(what.bytes) / gb_per_s);
    add(kind, track, what.name, start, end, what.bytes, value);
    return free_at_[track.role] = end;
  }

  void forward(int block) {
    const int64_t start = now_;
    for (size_t i = 0; i < kOps.size(); ++i) {
      const ValueId value(block * kOps.size() + i);
      const std::string place = trace_.value(value).placement;
      kernel(kOps[i].name, kOps[i].us);
      if (place == "recompute") continue;
      add(EventKind::save, {TrackRole::values}, trace_.value(value).name, now_, now_, 0, value);
      if (place == "keep") hold(owner_of(block), kOps[i].mib * kMiB);
      if (place == "host" || place == "disk")
        ready_[value] = move(EventKind::copy_out, {TrackRole::copy_out, 20}, value, now_, 55);
      if (place == "disk")
        ready_[value] = move(EventKind::disk_write, {TrackRole::disk_write}, value, ready_[value], 10);
    }
    add(TraceRegionKey::of_block(block), TrackRole::blocks, region(block), start, now_);
  }

  void fetch(int block) {
    for (size_t i = 0; i < kOps.size(); ++i) {
      const ValueId value(block * kOps.size() + i);
      const std::string place = trace_.value(value).placement;
      if (place == "disk")
        ready_[value] = move(EventKind::disk_read, {TrackRole::disk_read}, value, std::max(now_, ready_[value]), 10);
      if (place == "disk" || place == "host")
        ready_[value] = move(EventKind::copy_in, {TrackRole::copy_in, 21}, value, std::max(now_, ready_[value]), 55);
    }
  }

  void backward(int block) {
    if (block > 0) fetch(block - 1);
    const int64_t start = now_;
    for (int i = static_cast<int>(kOps.size()) - 1; i >= 0; --i) {
      const ValueId value(block * kOps.size() + i);
      const std::string place = trace_.value(value).placement;
      if (place == "recompute") {
        add(TraceRegionKey::of_block(block, Pass::recompute), TrackRole::blocks, region(block) + " recompute", now_,
            now_ + kOps[i].us * 1000);
        kernel(kOps[i].name, kOps[i].us, value);
      }
      if (ready_[value] > now_) {
        add(EventKind::wait, kCompute, "wait", now_, ready_[value]);
        now_ = ready_[value];
      }
      add(EventKind::use, {TrackRole::values}, trace_.value(value).name, now_, now_, 0, value);
      kernel(std::string(kOps[i].name) + " backward", 2 * kOps[i].us);
      if (place == "keep") hold(owner_of(block), -kOps[i].mib * kMiB);
      ready_[value] = 0;
    }
    hold(gradients_, 2 * kGiB / blocks_);
    add(TraceRegionKey::of_block(block, Pass::backward), TrackRole::blocks, region(block) + " backward", start, now_);
  }

  void run_step() {
    const int64_t start = now_;
    for (int block = 0; block < blocks_; ++block) forward(block);
    hold(head_, kGiB);
    kernel("head", 2500);
    kernel("head backward", 4000);
    hold(head_, -kGiB);
    for (int block = blocks_ - 1; block >= 0; --block) backward(block);
    add(TraceRegionKey::phase(Pass::forward), TrackRole::phases, "forward and backward", start, now_);
    const int64_t update = now_;
    kernel("adamw", 3000);
    hold(gradients_, -held_["gradients"]);
    add(TraceRegionKey::phase(Pass::optimizer), TrackRole::phases, "optimizer", update, now_);
    add({trace::TraceRegionLevel::step}, TrackRole::steps, "step", start, now_);
    now_ += kMs / 4;
  }

  static constexpr trace::Track kCompute{TrackRole::compute, 7};
  const trace::MemoryOwner parameters_{MemoryOwnerKind::parameters, "parameters"},
      gradients_{MemoryOwnerKind::gradients, "gradients"}, head_{MemoryOwnerKind::outside, "head"};
  const bool mixed_;
  const int blocks_;
  int64_t now_ = kMs;
  trace::Trace trace_;
  std::map<std::string, int64_t> held_;
  std::map<TrackRole, int64_t> free_at_;
  std::map<ValueId, int64_t> ready_;
};

inline trace::Trace made_up_trace(const std::string& strategy, int blocks = 16, int steps = 2) {
  return MadeUpTrace(strategy, blocks, steps).take();
}

}  // namespace memtune::test
