// Ranks start to trace at different moments. In the merged trace, simultaneous events have equal times, and figures are
// one rank's.
#include "core/sweep/ranks/rank_traces.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "core/base/file.h"
#include "core/record/trace/file.h"
#include "core/record/trace/step_device_time_breakdown.h"
#include "core/sweep/ranks/rank_trials.h"
#include "tests/support/run_program.h"
namespace memtune::sweep::rank_traces_test {
namespace {

namespace fs = std::filesystem;
using trace::EventKind;
using trace::TrackRole;

// Writes a kernel from 10 to 20 ns after the start and then a collective.
void write_rank(const fs::path& file, int64_t start_ns) {
  trace::Trace rank;
  rank.start_ns = start_ns;
  rank.values = {{"layers.0 attention", "layers.0", "host", "", 64, 0}};
  const auto add = [&](EventKind kind, TrackRole role, const char* name, int64_t begin, int64_t end) {
    trace::TraceEvent event;
    event.kind = kind;
    event.track = rank.track({role, 7});
    event.name = rank.name(name);
    event.start_ns = begin;
    event.end_ns = end;
    event.value = trace::ValueId(0);
    rank.events.push_back(event);
  };
  add(EventKind::kernel, TrackRole::compute, "gemm", 10, 20);
  add(EventKind::collective, TrackRole::collectives, "ncclDevKernel_AllGather", 20, 26);
  rank.lost_records = 1;
  trace::write_trace(file, rank);
}

struct Traces {
  test::ScratchFolder folder;
  std::vector<fs::path> files = {folder.path / "trace.mttrace", folder.path / "trace-rank1.mttrace",
                                 folder.path / "trace-rank2.mttrace"};
  trace::Trace merged() {
    merge_rank_traces(files, system_files());
    return trace::read_trace(files.front()).trace;
  }
};

TEST_CASE("lanes of every rank use the first rank's clock and figures are the first rank's") {
  Traces traces;
  write_rank(traces.files[0], 5000);
  write_rank(traces.files[1], 5003);
  write_rank(traces.files[2], 4999);
  const trace::Trace merged = traces.merged();
  REQUIRE(merged.events.size() == 6);
  CHECK(merged.measured_rank == 0);
  CHECK(merged.lost_records == 3);
  const std::vector<int64_t> begins = {10, 13, 9};
  for (int rank = 0; rank < 3; ++rank) {
    const trace::TraceEvent& kernel = merged.events[2 * rank];
    CHECK(merged.tracks[kernel.track].rank == rank);
    CHECK(kernel.start_ns == begins[rank]);
    CHECK(kernel.end_ns == begins[rank] + 10);
    CHECK(bool(kernel.value) == (rank == 0));
    CHECK(merged.names[merged.events[2 * rank + 1].name] == "ncclDevKernel_AllGather");
  }
  CHECK(total(find_step_time_breakdown(merged, {{0, 40}}).collectives) == 6);
  CHECK_FALSE(fs::exists(traces.files[1]));
  CHECK_FALSE(fs::exists(traces.files[2]));
}

TEST_CASE("a rank's trace that is missing or damaged or has no clock is left out") {
  Traces traces;
  write_rank(traces.files[0], 5000);
  write_file(traces.files[1], "no trace");
  const trace::Trace alone = traces.merged();
  CHECK(alone.events.size() == 2);
  CHECK(alone.measured_rank == -1);
  write_rank(traces.files[1], 0);
  write_rank(traces.files[2], 5001);
  const trace::Trace two = traces.merged();
  CHECK(two.events.size() == 4);
  CHECK(two.tracks[two.events[2].track].rank == 2);
}

TEST_CASE("no merged trace is written without the first rank's trace") {
  Traces traces;
  write_rank(traces.files[1], 5000);
  merge_rank_traces(traces.files, system_files());
  CHECK_FALSE(fs::exists(traces.files[0]));
}

TEST_CASE("each rank of a machine uses its own GPU or the only visible one") {
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(device_of_rank("cpu", 3) == "cpu");
  CHECK(device_of_rank("cuda", 0) == "cuda:0");
  CHECK(device_of_rank("cuda", 3) == "cuda:3");
  setenv("CUDA_VISIBLE_DEVICES", "4,5", 1);
  CHECK(device_of_rank("cuda", 1) == "cuda:1");
  setenv("CUDA_VISIBLE_DEVICES", "5", 1);
  CHECK(device_of_rank("cuda", 1) == "cuda:0");
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace memtune::sweep::rank_traces_test
