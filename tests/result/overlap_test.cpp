// The hidden share and exposed time rank offload strategies. Traces are handmade and figures computed by hand.
#include "core/record/measurement/overlap.h"

#include <doctest/doctest.h>

namespace memtune::overlap_test {

using namespace memtune::trace;
using memtune::result::CommunicationStats;
using memtune::result::measure_collectives;
using memtune::result::measure_overlap;
using memtune::result::StepHostDeviceCopyStats;

namespace {

constexpr int64_t kMs = 1'000'000;

Trace trace_of(std::initializer_list<TraceEvent> events_in_ms) {
  Trace trace;
  for (TraceEvent event : events_in_ms) {
    event.start_ns *= kMs;
    event.end_ns *= kMs;
    trace.events.push_back(event);
  }
  return trace;
}

TraceEvent event(EventKind kind, int64_t start_ms, int64_t end_ms, int64_t bytes = 0) {
  return {.kind = kind, .start_ns = start_ms, .end_ns = end_ms, .bytes = bytes};
}

}  // namespace

TEST_CASE("a trace without copies has no hidden and no exposed time") {
  for (const Trace& trace : {Trace{}, trace_of({event(EventKind::kernel, 0, 10)})}) {
    const StepHostDeviceCopyStats transfer = measure_overlap(trace, 1);
    CHECK(transfer.hidden == 0);
    CHECK(transfer.exposed_ms == 0);
    CHECK(transfer.out_bytes == 0);
    CHECK(transfer.out_gb_per_s == 0);
    CHECK(transfer.in_gb_per_s == 0);
  }
}

TEST_CASE("copy time under kernels is hidden and the rest is exposed") {
  // Kernels at 0-4 and 6-10; they overlap the copy at 2-8 during 2-4 and 6-8.
  const StepHostDeviceCopyStats transfer =
      measure_overlap(trace_of({event(EventKind::copy_out, 2, 8, 60 * kMs), event(EventKind::kernel, 0, 4),
                                event(EventKind::kernel, 6, 10)}),
                      1);
  CHECK(transfer.hidden == doctest::Approx(4.0 / 6));
  CHECK(transfer.exposed_ms == doctest::Approx(2));
  CHECK(transfer.out_bytes == 60 * kMs);
  CHECK(transfer.out_gb_per_s == doctest::Approx(10));  // 60 MB in 6 ms
}

TEST_CASE("concurrent copies in both directions count their time once") {
  const StepHostDeviceCopyStats transfer =
      measure_overlap(trace_of({event(EventKind::kernel, 0, 5), event(EventKind::copy_out, 0, 10, 100 * kMs),
                                event(EventKind::copy_in, 5, 10, 100 * kMs)}),
                      1);
  CHECK(transfer.hidden == doctest::Approx(0.5));
  CHECK(transfer.exposed_ms == doctest::Approx(5));
  CHECK(transfer.out_gb_per_s == doctest::Approx(10));
  CHECK(transfer.in_gb_per_s == doctest::Approx(20));
}

TEST_CASE("overlapping kernels and overlapping copies are not counted twice") {
  const StepHostDeviceCopyStats transfer =
      measure_overlap(trace_of({event(EventKind::kernel, 0, 6), event(EventKind::kernel, 1, 5),
                                event(EventKind::copy_in, 2, 8, 4), event(EventKind::copy_in, 4, 10, 4)}),
                      1);
  CHECK(transfer.hidden == doctest::Approx(0.5));
  CHECK(transfer.exposed_ms == doctest::Approx(4));
}

TEST_CASE("bytes and exposed time are per step but shares and rates are not") {
  const Trace trace = trace_of({event(EventKind::copy_out, 0, 4, 40 * kMs), event(EventKind::kernel, 2, 4),
                                event(EventKind::copy_out, 10, 14, 40 * kMs), event(EventKind::kernel, 12, 14),
                                event(EventKind::copy_in, 20, 22, 6 * kMs)});
  const StepHostDeviceCopyStats transfer = measure_overlap(trace, 2);
  CHECK(transfer.out_bytes == 40 * kMs);
  CHECK(transfer.in_bytes == 3 * kMs);
  CHECK(transfer.hidden == doctest::Approx(0.4));
  CHECK(transfer.exposed_ms == doctest::Approx(3));
  CHECK(transfer.out_gb_per_s == doctest::Approx(10));
  CHECK(transfer.in_gb_per_s == doctest::Approx(3));
}

TEST_CASE("memsets hide copies as kernels do but waits and ops and regions and device copies do not") {
  const auto hidden_under = [](EventKind kind) {
    return measure_overlap(trace_of({event(EventKind::copy_in, 0, 10, 1), event(kind, 0, 10, 99)}), 1);
  };
  CHECK(hidden_under(EventKind::memset).hidden == 1);
  for (const EventKind kind :
       {EventKind::copy_device, EventKind::wait, EventKind::op, EventKind::region, EventKind::collective}) {
    CAPTURE(to_string(kind));
    CHECK(hidden_under(kind).hidden == 0);
    CHECK(hidden_under(kind).exposed_ms == doctest::Approx(10));
    CHECK(hidden_under(kind).in_bytes == 1);
  }
}

TEST_CASE("collectives have their duration and the time in which nothing computed") {
  const Trace trace =
      trace_of({event(EventKind::collective, 0, 6), event(EventKind::collective, 4, 10), event(EventKind::kernel, 2, 5),
                event(EventKind::memset, 5, 6), event(EventKind::copy_out, 0, 10, 8)});
  const CommunicationStats found = measure_collectives(trace, 2);
  CHECK(found.collectives_ms == doctest::Approx(5));
  CHECK(found.exposed_ms == doctest::Approx(3));
  CHECK(measure_collectives(trace_of({event(EventKind::kernel, 0, 4)}), 0).collectives_ms == 0);
}

TEST_CASE("copies without duration cause no division by zero") {
  const StepHostDeviceCopyStats transfer = measure_overlap(trace_of({event(EventKind::copy_out, 3, 3, 8)}), 0);
  CHECK(transfer.out_bytes == 8);
  CHECK(transfer.hidden == 0);
  CHECK(transfer.exposed_ms == 0);
  CHECK(transfer.out_gb_per_s == 0);
}

}  // namespace memtune::overlap_test
