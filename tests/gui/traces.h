// Synthetic traces for the viewer's tests: small enough to check by hand, or of any size.
#pragma once

#include <algorithm>
#include <string>

#include "core/record/trace/trace_event.h"

namespace memtune::test {

inline constexpr int64_t kMs = 1'000'000;

inline trace::TraceEvent& add_event(trace::Trace& trace, trace::EventKind kind, const trace::Track& track,
                                    const std::string& name, int64_t start_ns, int64_t end_ns, int64_t bytes = 0,
                                    trace::ValueId value = {}) {
  trace.events.push_back(
      {kind, trace.track(track), trace.name(name), start_ns, end_ns, bytes, trace.events.size() + 1, value});
  return trace.events.back();
}

inline void add_region(trace::Trace& trace, const trace::TraceRegionKey& region, const std::string& name,
                       int64_t start_ns, int64_t end_ns) {
  const auto role = region.kind == trace::TraceRegionLevel::step ? trace::TrackRole::steps : trace::TrackRole::blocks;
  add_event(trace, trace::EventKind::region, {role}, name, start_ns, end_ns).region = region;
}

inline constexpr trace::TraceRegionKey kStep{trace::TraceRegionLevel::step};
inline constexpr trace::Track kCompute{trace::TrackRole::compute, 7}, kOut{trace::TrackRole::copy_out, 20},
    kIn{trace::TrackRole::copy_in, 21}, kWrite{trace::TrackRole::disk_write}, kRead{trace::TrackRole::disk_read},
    kValues{trace::TrackRole::values}, kHostOps{trace::TrackRole::ops};

// Steps of 10 ms with one kept activation and one offloaded to disk. Memory peaks at 5 ms of the second step.
inline trace::Trace small_trace(int steps = 2) {
  using trace::EventKind, trace::MemoryOwnerKind, trace::Pass, trace::TraceRegionKey, trace::ValueId;
  trace::Trace trace;
  trace.strategy = "offload:stream";
  trace.device = "NVIDIA H200";
  trace.budget_bytes = int64_t{10} << 30;
  trace.values = {{"layers.0 norm", "layers.0", "keep", "", 1 << 20, 0},
                  {"layers.1 up", "layers.1", "disk", "least ms a byte", 64 << 20, 1}};
  trace.owners = {{MemoryOwnerKind::block, "layers.0", 0}, {MemoryOwnerKind::parameters, "parameters"}};
  trace.owned = {{0, 1, int64_t{2} << 30}};
  for (int step = 0; step < steps; ++step) {
    const int64_t at = step * 10 * kMs;
    add_region(trace, kStep, "step", at, at + 10 * kMs);
    add_region(trace, TraceRegionKey::of_block(0), "layers.0", at, at + 4 * kMs);
    add_region(trace, TraceRegionKey::of_block(0, Pass::backward), "layers.0 backward", at + 5 * kMs, at + 9 * kMs);
    add_region(trace, TraceRegionKey::of_block(0, Pass::recompute), "layers.0 recompute", at + 6 * kMs, at + 7 * kMs);
    add_event(trace, EventKind::kernel, kCompute, "norm", at, at + kMs);
    add_event(trace, EventKind::kernel, kCompute, "up", at + kMs, at + 2 * kMs);
    add_event(trace, EventKind::kernel, kCompute, "up backward", at + 8 * kMs, at + 9 * kMs);
    add_event(trace, EventKind::save, kValues, "layers.0 norm", at + kMs, at + kMs, 0, ValueId(0));
    add_event(trace, EventKind::copy_out, kOut, "layers.1 up", at + 2 * kMs, at + 3 * kMs, 64 << 20, ValueId(1));
    add_event(trace, EventKind::save, kValues, "layers.1 up", at + 2 * kMs, at + 2 * kMs, 0, ValueId(1));
    add_event(trace, EventKind::disk_write, kWrite, "layers.1 up", at + 3 * kMs, at + 4 * kMs, 64 << 20, ValueId(1));
    add_event(trace, EventKind::disk_read, kRead, "layers.1 up", at + 5 * kMs, at + 6 * kMs, 64 << 20, ValueId(1));
    add_event(trace, EventKind::copy_in, kIn, "layers.1 up", at + 6 * kMs, at + 7 * kMs, 64 << 20, ValueId(1));
    add_event(trace, EventKind::use, kValues, "layers.1 up", at + 8 * kMs, at + 8 * kMs, 0, ValueId(1));
    add_event(trace, EventKind::use, kValues, "layers.0 norm", at + 9 * kMs, at + 9 * kMs, 0, ValueId(0));
    trace.owned.push_back({at + kMs, 0, int64_t{1} << 30});
    trace.owned.push_back({at + 9 * kMs, 0, 0});
    for (const int64_t gib : {2, 3, 4, 6, 5, 3})
      trace.memory.push_back({at + (gib == 6 ? 5 : gib) * kMs, (gib << 30) + (gib == 6 ? step : 0)});
  }
  std::stable_sort(
      trace.memory.begin(), trace.memory.end(),
      [](const trace::AllocatedBytesSample& a, const trace::AllocatedBytesSample& b) { return a.time_ns < b.time_ns; });
  return trace;
}

// One kernel and one step per rank, with the last rank first.
inline trace::Trace trace_of_ranks(int ranks) {
  trace::Trace trace;
  for (int rank = ranks - 1; rank >= 0; --rank) {
    add_event(trace, trace::EventKind::kernel, {trace::TrackRole::compute, 7, rank}, "k", 0, 10);
    add_event(trace, trace::EventKind::region, {trace::TrackRole::steps, -1, rank}, "step", 0, 10);
  }
  return trace;
}

// Kernels in 40 blocks with host ops, copies of one activation per block and memory samples. The trace has about
// `events` events.
inline trace::Trace big_trace(size_t events) {
  using trace::EventKind, trace::MemoryOwnerKind, trace::TraceRegionKey, trace::ValueId;
  constexpr int kBlocks = 40, kOps = 25;
  trace::Trace trace;
  trace.strategy = "offload:stream";
  trace.owners = {{MemoryOwnerKind::parameters, "parameters"}};
  trace.owned = {{0, 0, int64_t{8} << 30}};
  for (int block = 0; block < kBlocks; ++block) {
    const std::string region = "layers." + std::to_string(block);
    trace.values.push_back({region + " up", region, "host", "", 64 << 20, block});
    trace.owners.push_back({MemoryOwnerKind::block, region, block});
  }
  for (int64_t at = 0; trace.events.size() < events; at += 2 * kMs) {
    const auto step_block = static_cast<uint32_t>((at / (2 * kMs)) % kBlocks);
    const std::string& region = trace.values[step_block].region;
    add_region(trace, TraceRegionKey::of_block(static_cast<int32_t>(step_block)), region, at, at + 2 * kMs);
    add_event(trace, EventKind::copy_out, kOut, region + " up", at, at + kMs, 64 << 20, ValueId(step_block));
    add_event(trace, EventKind::copy_in, kIn, region + " up", at + kMs, at + 2 * kMs, 64 << 20, ValueId(step_block));
    trace.owned.push_back({at, step_block + 1, int64_t{256} << 20});
    for (int op = 0; op < kOps; ++op) {
      const int64_t start = at + op * 80'000;
      const std::string name = "kernel " + std::to_string(op);
      add_event(trace, EventKind::op, kHostOps, name, start - 9'000, start - 1'000);
      add_event(trace, EventKind::kernel, kCompute, name, start, start + 75'000);
      trace.memory.push_back({start, (int64_t{20} << 30) + (op + step_block) * (int64_t{64} << 20)});
    }
    trace.owned.push_back({at + 1'900'000, step_block + 1, 0});
  }
  return trace;
}

}  // namespace memtune::test
