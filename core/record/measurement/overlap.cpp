#include "core/record/measurement/overlap.h"

#include <algorithm>

#include "core/record/trace/step_device_time_breakdown.h"

namespace memtune::result {
namespace {

using trace::EventKind;
using trace::Intervals;
using trace::Trace;
using trace::TraceEvent;

int64_t bytes_of(const Trace& trace, EventKind kind) {
  int64_t bytes = 0;
  for (const TraceEvent& event : trace.events) bytes += event.kind == kind && trace.counts(event) ? event.bytes : 0;
  return bytes;
}

// Bytes per ns equal 1e9 bytes per second.
double rate(int64_t bytes, const Intervals& copies) {
  const int64_t ns = total(copies);
  return ns > 0 ? static_cast<double>(bytes) / static_cast<double>(ns) : 0;
}

}  // namespace

StepHostDeviceCopyStats measure_overlap(const Trace& trace, int steps) {
  const Intervals kernels = time_of_kinds(trace, {EventKind::kernel, EventKind::memset});
  const Intervals out = time_of_kinds(trace, {EventKind::copy_out}), in = time_of_kinds(trace, {EventKind::copy_in});
  const Intervals copies = time_of_kinds(trace, {EventKind::copy_out, EventKind::copy_in});
  const int64_t out_bytes = bytes_of(trace, EventKind::copy_out), in_bytes = bytes_of(trace, EventKind::copy_in);
  const int64_t copy_ns = total(copies), hidden_ns = total(intersect(copies, kernels));
  steps = std::max(steps, 1);

  StepHostDeviceCopyStats transfer;
  transfer.out_bytes = out_bytes / steps;
  transfer.in_bytes = in_bytes / steps;
  transfer.hidden = copy_ns > 0 ? static_cast<double>(hidden_ns) / static_cast<double>(copy_ns) : 0;
  transfer.exposed_ms = static_cast<double>(copy_ns - hidden_ns) / 1e6 / steps;
  transfer.out_gb_per_s = rate(out_bytes, out);
  transfer.in_gb_per_s = rate(in_bytes, in);
  return transfer;
}

CommunicationStats measure_collectives(const Trace& trace, int steps) {
  const Intervals kernels = time_of_kinds(trace, {EventKind::kernel, EventKind::memset});
  const Intervals collectives = time_of_kinds(trace, {EventKind::collective});
  const double per_step = 1e6 * std::max(steps, 1);
  CommunicationStats communication;
  communication.collectives_ms = static_cast<double>(total(collectives)) / per_step;
  communication.exposed_ms = static_cast<double>(total(subtract(collectives, kernels))) / per_step;
  return communication;
}

}  // namespace memtune::result
