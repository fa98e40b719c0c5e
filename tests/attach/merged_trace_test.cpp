// The traced steps of every rank become one trace on one clock. Its figures are those of the slowest rank.
#include "core/measure/attach/merged_trace.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/record/measurement/overlap.h"
#include "core/record/trace/file.h"
#include "core/record/trace/step_device_time_breakdown.h"
#include "tests/support/run_program.h"

namespace memtune::merged_trace_test {

using namespace memtune;
using namespace memtune::attach;
using namespace memtune::trace;

namespace {

constexpr int64_t kMs = 1'000'000;

TrainingProcessRecords traced_rank(int64_t number, double step_ms, int64_t start_ms, const std::string& file = "") {
  TrainingProcessRecords records;
  records.rank = number;
  StepRecord step;
  step.phase = MeasurementPhase::measured;
  step.ms = step_ms;
  records.steps = {step};
  records.trace.emplace();
  records.trace->file = file;
  records.trace->start_ns = start_ms * kMs;
  records.trace->blocks = {"model.layers.0", "model.layers.1"};
  records.trace->regions = {{TraceRegionKey::of_block(1), 2 * kMs, 3 * kMs},
                            {TraceRegionKey::phase(Pass::forward), 1 * kMs, 4 * kMs},
                            {TraceRegionKey::of_block(0, Pass::recompute), 5 * kMs, 6 * kMs},
                            {{TraceRegionLevel::head, Pass::backward}, 4 * kMs, 5 * kMs},
                            {{TraceRegionLevel::step}, 1 * kMs, 9 * kMs}};
  return records;
}

// A kernel from 1 to 4 ms and an offload copy of `bytes`. 2 ms of the copy overlap the kernel, `late_ms` come after it.
void write_device(const std::filesystem::path& path, int64_t bytes, int64_t late_ms) {
  Trace trace;
  const uint32_t compute = trace.track({TrackRole::compute, 7}), out = trace.track({TrackRole::copy_out, 20});
  trace.events = {{EventKind::kernel, compute, trace.name("ncclDevKernel_AllGather"), 1 * kMs, 4 * kMs},
                  {EventKind::copy_out, out, trace.name("copy out"), 2 * kMs, (4 + late_ms) * kMs, bytes}};
  write_trace(path, trace);
}

struct Merged {
  test::ScratchFolder folder;
  result::TrialMeasurement measurement;
  std::vector<std::string> notes;

  Trace of(const std::vector<TrainingProcessRecords>& ranks) {
    const std::filesystem::path target = folder.path / "trace.mttrace";
    fill_traced(rank_records_of(ranks), folder.path, target, system_files(), measurement, notes);
    return measurement.trace.empty() ? Trace() : read_trace(target).trace;
  }
};

const TraceEvent& named(const Trace& trace, const std::string& name, int32_t rank) {
  for (const TraceEvent& event : trace.events)
    if (trace.names[event.name] == name && trace.tracks[event.track].rank == rank) return event;
  FAIL("there is no " << name);
  return trace.events[0];
}

}  // namespace

TEST_CASE("regions of a command have the names and tracks of those of a trial") {
  Merged merged;
  const Trace trace = merged.of({traced_rank(0, 10, 50)});
  CHECK(trace.tracks == std::vector<Track>{{TrackRole::steps}, {TrackRole::phases}, {TrackRole::blocks}});
  CHECK(trace.names ==
        std::vector<std::string>{"step", "forward", "model.layers.1", "model.layers.0 recompute", "head backward"});
  CHECK(trace.events[2].region == TraceRegionKey::of_block(1));
  CHECK(trace.events[2].start_ns == 2 * kMs);
  CHECK(trace.measured_rank == -1);
  CHECK(merged.measurement.trace == "trace.mttrace");
}

TEST_CASE("traces of ranks are moved to one clock and each rank has its own tracks") {
  Merged merged;
  write_device(merged.folder.path / "1.mttrace", 100, 1);
  const Trace trace = merged.of({traced_rank(0, 10, 53), traced_rank(1, 12, 50, "1.mttrace")});
  CHECK(named(trace, "step", 1).start_ns == 1 * kMs);
  CHECK(named(trace, "step", 0).start_ns == 4 * kMs);
  CHECK(named(trace, "model.layers.1", 0).end_ns == 6 * kMs);
  CHECK(named(trace, "ncclDevKernel_AllGather", 1).start_ns == 1 * kMs);
  CHECK(has_ranks(trace));
}

TEST_CASE("device events before the first kept step are left out") {
  Merged merged;
  write_device(merged.folder.path / "0.mttrace", 700, 3);  // they begin at 1 and 2 ms
  TrainingProcessRecords rank = traced_rank(0, 10, 50, "0.mttrace");
  rank.trace->regions.back().start_ns = 5 * kMs;
  const Trace trace = merged.of({rank});
  const auto kernels = std::ranges::count(trace.events, EventKind::kernel, &TraceEvent::kind);
  CHECK(kernels == 0);  // the kernel ended at 4 ms
  CHECK(named(trace, "copy out", 0).end_ns == 7 * kMs);
}

TEST_CASE("figures of a merged trace come from the slowest rank alone") {
  Merged merged;
  write_device(merged.folder.path / "0.mttrace", 700, 3);
  write_device(merged.folder.path / "1.mttrace", 100, 1);
  const Trace trace = merged.of({traced_rank(0, 10, 50, "0.mttrace"), traced_rank(1, 12, 50, "1.mttrace")});
  CHECK(trace.measured_rank == 1);
  CHECK(merged.measurement.transfer.out_bytes == 100);
  CHECK(merged.measurement.transfer.exposed_ms == doctest::Approx(1));
  CHECK(result::measure_overlap(trace, 1).out_bytes == 100);
  REQUIRE(find_steps(trace).size() == 1);
  const StepDeviceTimeBreakdown breakdown = find_step_time_breakdown(trace, find_steps(trace));
  CHECK(total(breakdown.compute) == 3 * kMs);
  CHECK(total(breakdown.out) == 1 * kMs);
  CHECK(total(breakdown.idle) == 4 * kMs);
  const TraceEvent* region = region_at(trace, 2 * kMs + 1);
  REQUIRE(region != nullptr);
  CHECK(trace.tracks[region->track].rank == 1);
  CHECK(trace.tracks[region_at(trace, 2 * kMs + 1, 0)->track].rank == 0);
}

TEST_CASE("an untraced slowest rank leaves the figures to the slowest traced one") {
  Merged merged;
  TrainingProcessRecords slow = traced_rank(1, 20, 0);
  slow.trace.reset();
  write_device(merged.folder.path / "0.mttrace", 700, 3);
  const Trace trace = merged.of({traced_rank(0, 10, 50, "0.mttrace"), slow});
  CHECK(merged.measurement.transfer.out_bytes == 700);
  CHECK(trace.events.size() == 7);
  CHECK_FALSE(has_ranks(trace));
}

TEST_CASE("unreadable kernels are a note and the steps are still in the trace") {
  Merged merged;
  const Trace trace = merged.of({traced_rank(0, 10, 50, "gone.mttrace")});
  REQUIRE(merged.notes.size() == 1);
  CHECK(merged.notes[0].starts_with("kernels and copies of rank 0 cannot be read: "));
  CHECK(find_steps(trace).size() == 1);
}

TEST_CASE("a command without traced steps has no trace") {
  Merged merged;
  TrainingProcessRecords rank = traced_rank(0, 10, 50);
  rank.trace.reset();
  merged.of({rank});
  CHECK(merged.measurement.trace.empty());
  CHECK(merged.notes.empty());
}

}  // namespace memtune::merged_trace_test
