// Made-up traces for the viewer's tests: small enough to be checked by hand, or as large as wanted.
#pragma once

#include <algorithm>
#include <string>

#include "core/trace/event.h"

namespace memtune::test {

inline constexpr int64_t kMs = 1'000'000;

inline void add_event(trace::Trace& trace, trace::EventKind kind, const std::string& track, const std::string& name,
                      int64_t start_ns, int64_t end_ns, int64_t bytes = 0, uint32_t value = 0) {
  const bool device = track.starts_with("compute") || track.starts_with("copy") || track.starts_with("device");
  trace.events.push_back(
      {kind, trace.track(track, device), trace.name(name), start_ns, end_ns, bytes, trace.events.size() + 1, value});
}

// Each step of 10 ms: one value kept, one that travels to the disk and back. Memory rises to its peak at 5 ms of the
// second step.
inline trace::Trace small_trace(int steps = 2) {
  using trace::EventKind;
  trace::Trace trace;
  trace.strategy = "offload:stream";
  trace.device = "NVIDIA H200";
  trace.budget_bytes = int64_t{10} << 30;
  trace.values = {{"layers.0 norm", "layers.0", "keep", "", 1 << 20},
                  {"layers.1 up", "layers.1", "disk", "least ms a byte", 64 << 20}};
  trace.owners = {"layers.0", "parameters"};
  trace.owned = {{0, 1, int64_t{2} << 30}};
  for (int step = 0; step < steps; ++step) {
    const int64_t at = step * 10 * kMs;
    add_event(trace, EventKind::region, "host steps", "step", at, at + 10 * kMs);
    add_event(trace, EventKind::region, "device blocks", "layers.0", at, at + 4 * kMs);
    add_event(trace, EventKind::region, "device blocks", "layers.0 backward", at + 5 * kMs, at + 9 * kMs);
    add_event(trace, EventKind::region, "device blocks", "layers.0 recompute", at + 6 * kMs, at + 7 * kMs);
    add_event(trace, EventKind::kernel, "compute stream 7", "norm", at, at + kMs);
    add_event(trace, EventKind::kernel, "compute stream 7", "up", at + kMs, at + 2 * kMs);
    add_event(trace, EventKind::kernel, "compute stream 7", "up backward", at + 8 * kMs, at + 9 * kMs);
    add_event(trace, EventKind::save, "values", "layers.0 norm", at + kMs, at + kMs, 0, 1);
    add_event(trace, EventKind::copy_out, "copy out stream 20", "layers.1 up", at + 2 * kMs, at + 3 * kMs, 64 << 20, 2);
    add_event(trace, EventKind::save, "values", "layers.1 up", at + 2 * kMs, at + 2 * kMs, 0, 2);
    add_event(trace, EventKind::disk_write, "disk write", "layers.1 up", at + 3 * kMs, at + 4 * kMs, 64 << 20, 2);
    add_event(trace, EventKind::disk_read, "disk read", "layers.1 up", at + 5 * kMs, at + 6 * kMs, 64 << 20, 2);
    add_event(trace, EventKind::copy_in, "copy in stream 21", "layers.1 up", at + 6 * kMs, at + 7 * kMs, 64 << 20, 2);
    add_event(trace, EventKind::use, "values", "layers.1 up", at + 8 * kMs, at + 8 * kMs, 0, 2);
    add_event(trace, EventKind::use, "values", "layers.0 norm", at + 9 * kMs, at + 9 * kMs, 0, 1);
    trace.owned.push_back({at + kMs, 0, int64_t{1} << 30});
    trace.owned.push_back({at + 9 * kMs, 0, 0});
    for (const int64_t gib : {2, 3, 4, 6, 5, 3})
      trace.memory.push_back({at + (gib == 6 ? 5 : gib) * kMs, (gib << 30) + (gib == 6 ? step : 0)});
  }
  std::stable_sort(trace.memory.begin(), trace.memory.end(),
                   [](const trace::MemorySample& a, const trace::MemorySample& b) { return a.time_ns < b.time_ns; });
  return trace;
}

// Steps of 1000 kernels in 40 blocks, with the host's ops, copies of one value a block and memory samples: some
// `events` events in all.
inline trace::Trace big_trace(size_t events) {
  using trace::EventKind;
  constexpr int kBlocks = 40, kOps = 25;
  trace::Trace trace;
  trace.strategy = "offload:stream";
  trace.owners = {"parameters"};
  trace.owned = {{0, 0, int64_t{8} << 30}};
  for (int block = 0; block < kBlocks; ++block) {
    const std::string region = "layers." + std::to_string(block);
    trace.values.push_back({region + " up", region, "host", "", 64 << 20});
    trace.owners.push_back(region);
  }
  for (int64_t at = 0; trace.events.size() < events; at += 2 * kMs) {
    const auto step_block = static_cast<uint32_t>((at / (2 * kMs)) % kBlocks);
    const std::string& region = trace.values[step_block].region;
    add_event(trace, EventKind::region, "device blocks", region, at, at + 2 * kMs);
    add_event(trace, EventKind::copy_out, "copy out stream 20", region + " up", at, at + kMs, 64 << 20, step_block + 1);
    add_event(trace, EventKind::copy_in, "copy in stream 21", region + " up", at + kMs, at + 2 * kMs, 64 << 20,
              step_block + 1);
    trace.owned.push_back({at, step_block + 1, int64_t{256} << 20});
    for (int op = 0; op < kOps; ++op) {
      const int64_t start = at + op * 80'000;
      const std::string name = "kernel " + std::to_string(op);
      add_event(trace, EventKind::op, "host ops", name, start - 9'000, start - 1'000);
      add_event(trace, EventKind::kernel, "compute stream 7", name, start, start + 75'000);
      trace.memory.push_back({start, (int64_t{20} << 30) + (op + step_block) * (int64_t{64} << 20)});
    }
    trace.owned.push_back({at + 1'900'000, step_block + 1, 0});
  }
  return trace;
}

}  // namespace memtune::test
