#include "core/measure/attach/merged_trace.h"

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
#include "core/measure/attach/traced_memory.h"
#include "core/record/measurement/overlap.h"
#include "core/record/trace/file.h"
#include "core/record/trace/ranks.h"

namespace memtune::attach {
namespace {

using trace::EventKind;
using trace::Trace;
using trace::TraceEvent;
using trace::TraceRegionKey;
using trace::TraceRegionLevel;
using trace::TrackRole;

TrackRole role_of(TraceRegionLevel kind) {
  if (kind == TraceRegionLevel::step) return TrackRole::steps;
  return kind == TraceRegionLevel::phase ? TrackRole::phases : TrackRole::blocks;
}

// The same names as in traces of memtune's own trials.
std::string name_of(const TraceRegionKey& region, const std::vector<std::string>& blocks) {
  if (region.kind == TraceRegionLevel::step) return "step";
  if (region.kind == TraceRegionLevel::phase) return to_string(region.pass);
  std::string name = region.kind == TraceRegionLevel::head ? "head" : "before the blocks";
  if (region.kind == TraceRegionLevel::block) name = blocks[static_cast<size_t>(region.block)];
  return region.pass == trace::Pass::forward ? name : name + " " + to_string(region.pass);
}

// Adds ranks to a trace, with their times shifted by `shift_ns`.
class Merge {
 public:
  explicit Merge(Trace& to) : to_(to) {}

  void add_regions(const TrainingProcessRecords& rank, int64_t shift_ns) {
    std::vector<RegionSpan> regions = rank.trace->regions;
    std::ranges::stable_sort(regions, {}, [](const RegionSpan& each) { return role_of(each.region.kind); });
    for (const RegionSpan& record : regions) {
      TraceEvent event;
      event.kind = EventKind::region;
      event.region = record.region;
      event.track = to_.track({role_of(record.region.kind), -1, static_cast<int32_t>(rank.rank)});
      event.name = to_.name(name_of(record.region, rank.trace->blocks));
      event.start_ns = record.start_ns + shift_ns;
      event.end_ns = record.end_ns + shift_ns;
      to_.events.push_back(event);
    }
  }

  // Adds device events that ended after `since_ns`. They are put on the rank's own tracks, whatever the file says.
  void add_device(const Trace& trace, int64_t rank, int64_t since_ns, int64_t shift_ns) {
    trace::add_rank(trace, static_cast<int32_t>(rank), shift_ns, to_, since_ns);
  }

 private:
  Trace& to_;
};

// Begin of the first step that was kept; 0: there is none.
int64_t begin_of(const KernelTraceFileAndRegionSpans& record) {
  int64_t begin_ns = 0;
  for (const RegionSpan& each : record.regions)
    if (each.region.kind == TraceRegionLevel::step && (begin_ns == 0 || each.start_ns < begin_ns))
      begin_ns = each.start_ns;
  return begin_ns;
}

ProcessRecordsByRank traced_of(const ProcessRecordsByRank& team) {
  ProcessRecordsByRank traced = team;
  std::erase_if(traced.ranks, [](const TrainingProcessRecords* rank) { return !rank->trace; });
  return traced;
}

Trace merge_traces(const ProcessRecordsByRank& traced, const std::filesystem::path& folder,
                   std::vector<std::string>& notes) {
  Trace merged;
  Merge merge(merged);
  const auto start_ns = [](const TrainingProcessRecords* rank) { return rank->trace->start_ns; };
  const int64_t first_ns = start_ns(*std::ranges::min_element(traced.ranks, {}, start_ns));
  for (const TrainingProcessRecords* rank : traced.ranks) {
    const int64_t shift_ns = start_ns(rank) - first_ns;
    merge.add_regions(*rank, shift_ns);
    if (rank->trace->file.empty()) continue;
    try {
      merge.add_device(trace::read_trace(folder / rank->trace->file).trace, rank->rank, begin_of(*rank->trace),
                       shift_ns);
    } catch (const Error& error) {
      notes.push_back("kernels and copies of rank " + std::to_string(rank->rank) + " cannot be read: " + error.what());
    }
  }
  const TrainingProcessRecords& slowest = slowest_rank(traced);
  if (slowest.memory) add_memory(*slowest.memory, start_ns(&slowest) - first_ns, merged);
  if (traced.ranks.size() > 1) merged.measured_rank = static_cast<int32_t>(slowest.rank);
  return merged;
}

}  // namespace

void fill_traced(const ProcessRecordsByRank& team, const std::filesystem::path& folder,
                 const std::filesystem::path& target, FileSystem& files, result::TrialMeasurement& to,
                 std::vector<std::string>& notes) try {
  const ProcessRecordsByRank traced = traced_of(team);
  if (traced.ranks.empty()) return;
  if (const auto& memory = slowest_rank(traced).memory)
    fill_memory(*memory, folder, target.parent_path() / "memory.stacks", files, to, notes);
  Trace trace = merge_traces(traced, folder, notes);
  if (trace.events.empty()) return;
  trace.strategy = to.strategy;
  trace.device = to.device;
  const int steps = static_cast<int>(slowest_rank(traced).trace->steps);
  to.transfer = result::measure_overlap(trace, steps);
  to.communication = result::measure_collectives(trace, steps);
  if (trace.lost_records > 0)
    notes.push_back("CUPTI lost " + std::to_string(trace.lost_records) +
                    " records: copies and kernels are not all there");
  trace::write_trace(target, trace, files);
  to.trace = target.filename().string();
} catch (const Error& error) {
  notes.push_back("the traced steps cannot be kept: " + std::string(error.what()));
}

}  // namespace memtune::attach
