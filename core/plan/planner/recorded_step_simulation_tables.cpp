#include "core/plan/planner/recorded_step_simulation_tables.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/plan/planner/step_costs_with_waits_for_host.h"
#include "core/record/trace/private_save.h"

namespace memtune::planner {
namespace {

using plan::RecordedStepCosts;
using List = std::vector<int> RecordedStepCosts::Run::*;

FlattenedLists lists_of(const RecordedStepCosts& costs, List list) {
  std::vector<std::vector<int>> lists;
  for (const RecordedStepCosts::Run& run : costs.runs) lists.push_back(run.*list);
  return FlattenedLists(lists);
}

constexpr int64_t kCpuGenerator = 5056;  // state of the Mersenne Twister

// Index of an output as plans count it. Costs number the tensors of a list one by one; plans place the list.
int argument_of(const plan::ProgramOpFacts& op, int output) {
  return op.outputs.size() == 1 ? std::min(output, 0) : output;
}

size_t unpacks(const RecordedStepCosts& costs) {
  return static_cast<size_t>(
      std::ranges::count(costs.moments, RecordedStepCosts::Moment::Kind::unpack, &RecordedStepCosts::Moment::kind));
}

// Storages by the run that uses them last. `made`: those that this run also made; else the others.
FlattenedLists ends(const RecordedStepCosts& costs, const std::vector<RecordedStepSimulationTables::Value>& values,
                    size_t storages, bool made) {
  std::vector<int> last(storages, -1), first(storages, -1);
  const auto touch = [&](int value, int run) {
    if (values[value].output == kPrivateSave || values[value].outside) return;
    int& made_by = first[values[value].storage];
    if (made_by < 0) made_by = run;
    last[values[value].storage] = run;
  };
  for (int run = 0; run < static_cast<int>(costs.runs.size()); ++run) {
    for (const int value : costs.runs[run].reads) touch(value, run);
    for (const int value : costs.runs[run].makes) touch(value, run);
  }
  std::vector<std::vector<int>> lists(costs.runs.size());
  for (size_t storage = 0; storage < storages; ++storage)
    if (last[storage] >= 0 && (last[storage] == first[storage]) == made)
      lists[last[storage]].push_back(static_cast<int>(storage));
  return FlattenedLists(lists);
}

struct Storages {
  std::vector<RecordedStepSimulationTables::Value> values;
  std::vector<int64_t> bytes;

  // `then` overwrites `before` in place.
  void put_into(const RecordedStepSimulationTables::Value& before, RecordedStepSimulationTables::Value& then) {
    bytes[then.storage] = 0;
    then.storage = before.storage;
    then.in_place = true;
  }
};

// Overwritten values and their new contents (first in `makes`) are listed in the same order. A value from outside of
// the step has no new entry.
Storages find_storages(const plan::ProgramFacts& facts, const RecordedStepCosts& costs) {
  Storages all;
  for (const RecordedStepCosts::Value& value : costs.values) {
    const int64_t held = round_up(value.bytes, costs.grain_bytes);
    const bool outside = value.run < 0;
    const plan::ProgramOpFacts* op = outside ? nullptr : &facts.ops.at(costs.runs[value.run].op);
    all.values.push_back({static_cast<int>(all.values.size()), value.run, op ? op->block : -1,
                          op ? argument_of(*op, value.output) : 0, static_cast<int>(all.bytes.size()), value.cast_of,
                          value.bytes, held, outside});
    all.bytes.push_back(outside ? 0 : held);
  }
  for (const RecordedStepCosts::Run& run : costs.runs) {
    size_t made = 0;
    for (const int written : run.writes)
      if (!all.values[written].outside && made < run.makes.size())
        all.put_into(all.values[written], all.values[run.makes[made++]]);
  }
  return all;
}

}  // namespace

FlattenedLists::FlattenedLists(const std::vector<std::vector<int>>& lists) {
  for (const auto& list : lists) {
    items_.insert(items_.end(), list.begin(), list.end());
    begin_.push_back(static_cast<int>(items_.size()));
  }
}

RecordedStepSimulationTables::RecordedStepSimulationTables(const plan::ProgramFacts& facts,
                                                           const RecordedStepCosts& costs)
    : reads(lists_of(costs, &RecordedStepCosts::Run::reads)),
      makes(lists_of(costs, &RecordedStepCosts::Run::makes)),
      writes(lists_of(costs, &RecordedStepCosts::Run::writes)),
      saves(lists_of(costs, &RecordedStepCosts::Run::saves)),
      last_reads({}),
      never_read({}) {
  Storages all = find_storages(facts, costs);
  values = std::move(all.values);
  storage_bytes = std::move(all.bytes);
  last_reads = ends(costs, values, storage_bytes.size(), false);
  never_read = ends(costs, values, storage_bytes.size(), true);
  const StepCostsWithWaitsForHost recorded = issue_step(costs);
  if (recorded.step_ms > 0 && costs.step_ms > 0) scale = costs.step_ms / recorded.step_ms;
  issues = costs.has_issue_times();
  if (issues) {
    pass_ms = scale * recorded.pass_ms;
    idle_ms = scale * recorded.idle_ms;
    hook_ms = scale * costs.issue.engine_ms / static_cast<double>(costs.runs.size() + 1 + unpacks(costs));
  }
  for (size_t i = 0; i < costs.moments.size(); ++i)
    moment_host_ms.push_back(scale * (issues ? costs.issue.moments[i].ms : costs.moments[i].host_ms));
  const bool on_cpu = costs.grain_bytes == 1;
  op_bytes.resize(facts.ops.size());
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    const RecordedStepCosts::Run& run = costs.runs[i];
    const RecordedStepCosts::IssueTime issue = issues ? costs.issue.runs[i] : RecordedStepCosts::IssueTime{run.host_ms};
    const plan::ProgramOpFacts& op = facts.ops.at(run.op);
    const int64_t generator = op.random && on_cpu ? kCpuGenerator : 0;
    int64_t made = 0, taken_bytes = 0;
    for (const int value : run.makes) {
      made += 2 * values[value].bytes;
      if (!values[value].in_place && !values[value].outside) taken_bytes += values[value].held_bytes;
    }
    runs.push_back({run.op, op.block, op.after_blocks, run.writes_outside, op.op_class == plan::OpClass::host,
                    generator, run.own_bytes, run.own_bytes - taken_bytes, run.before_bytes, run.ms * scale,
                    issue.ms * scale, issue.waits});
    op_bytes[run.op] = std::max(op_bytes[run.op], run.own_bytes);
    if (run.ms > 0) cast_bytes_per_ms = std::max(cast_bytes_per_ms, static_cast<double>(made) / (run.ms * scale));
  }
}

}  // namespace memtune::planner
