#include "core/plan/planner/step_simulator.h"

#include "core/plan/schedule/copy_sizes.h"

namespace memtune::planner {

using plan::RecordedStepCosts;

namespace {

int unit_block(const RecordedStepSimulationTables::Run& run) {
  if (run.block >= 0) return run.block;
  return run.after_blocks ? RecordedStepCosts::StateUnit::kBehind : RecordedStepCosts::StateUnit::kBefore;
}

}  // namespace

StepSimulator::StepSimulator(const RecordedStepSimulationTables& tables, const RecordedStepCosts& costs,
                             const UnmodelledMemory& unmodelled, const plan::Plan& plan,
                             schedule::LearnedMemoryHeadroomTimeline& schedule, SimulatedCachingAllocator& cache,
                             const AllowedOffloadTiersAndHostBudget& tiers, const StepState& before)
    : costs_(costs),
      unmodelled_(unmodelled),
      tables_(tables),
      scale_(tables.scale),
      memory_(tables.storage_bytes, cache),
      tier_(tiers, {costs.disk_write_gb_per_s, costs.disk_read_gb_per_s},
            schedule::host_slab_bytes(costs.grain_bytes == 1), plan.transfer.compatibility.power_of_two,
            before.put_bytes, clock_),
      copies_(plan.transfer, {costs.out_gb_per_s, costs.in_gb_per_s, tables.scale * costs.issue.copy_ms}, memory_,
              clock_, tier_, schedule, before.largest_bytes),
      gathers_(costs, tables.scale, before.gathers, memory_, clock_),
      states_(costs, plan, tables.scale, before.states, memory_, clock_, copies_),
      values_(tables, costs, plan, tables.op_bytes.size(), memory_, clock_, copies_, gathers_) {
  clock_.issues = tables.issues;
  if (!plan.keeps_everything()) clock_.hook_ms = tables.hook_ms;
  held_.runs.resize(costs.runs.size());
  held_.moments.resize(costs.moments.size());
  held_.reads.resize(costs.sharding.reads.size());
}

void StepSimulator::simulate_step() {
  forward();
  backward();
}

void StepSimulator::forward() {
  copies_.schedule().begin_step();
  memory_.begin(without_moved(costs_.runs.empty() ? unmodelled_.before_peak_bytes : unmodelled_.runs[0].before_bytes));
  gathers_.begin_forward();
  states_.begin_forward();
  for (size_t i = 0; i < costs_.runs.size(); ++i) {
    const int run = static_cast<int>(i);
    memory_.set_unmodelled(without_moved(unmodelled_.runs[i].before_bytes));
    gathers_.read(run);
    states_.read(unit_block(tables_.runs[i]));
    values_.before(run);
    held_.runs[i] = {memory_.held_bytes(), memory_.held_bytes(), gathers_.needed_bytes()};
    memory_.update_peak(costs_.runs[i].own_bytes);
    values_.after(run);
    note(i);
  }
  forward_peak_ = memory_.peak();
  values_.end_forward();
  gathers_.begin_backward();
  states_.begin_backward();
  held_.before_peak_bytes = memory_.held_bytes();
  memory_.set_unmodelled(without_moved(unmodelled_.before_peak_bytes));
}

void StepSimulator::backward() {
  memory_.update_peak();
  clock_.run(costs_.before_ms * scale_, (tables_.issues ? costs_.issue.before_ms : costs_.before_ms) * scale_);
  size_t read = 0;
  for (size_t i = 0; i < costs_.moments.size(); ++i) {
    read_units(read, i);
    const RecordedStepCosts::Moment& moment = costs_.moments[i];
    const UnmodelledMemory::Entry& unmodelled = unmodelled_.moments[i];
    states_.read_in_backward(unit_block(tables_.runs[costs_.saved[moment.saved].run]), i);
    memory_.set_unmodelled(without_moved(unmodelled.before_bytes));
    held_.moments[i].before_bytes = memory_.held_bytes();
    if (moment.kind == RecordedStepCosts::Moment::Kind::unpack)
      values_.unpack(moment.saved);
    else
      values_.end(moment.saved);
    held_.moments[i].peak_bytes = memory_.held_bytes();
    held_.moments[i].gathered_bytes = gathers_.needed_bytes();
    update_peak(unmodelled);
    if (moment.kind == RecordedStepCosts::Moment::Kind::unpack || !tables_.issues)
      clock_.run(moment.ms * scale_, tables_.moment_host_ms[i]);
    if (tables_.issues && costs_.issue.moments[i].waits) clock_.read_result();
    note(costs_.runs.size() + i);
  }
  states_.end_backward();
  if (tables_.issues) {
    SimulatedComputeAndHostClock end = clock_;
    const double left = 1 - states_.updated_share();
    end.run_parts(left * costs_.after_ms * scale_, left * costs_.issue.after_ms * scale_);
    end_ms_ = end.compute;
  }
  read_units(read, costs_.moments.size());
  gathers_.end_backward();
  held_.gather_wait_ms = gathers_.waited_ms();
  held_.after_peak_bytes = memory_.held_bytes();
  memory_.set_unmodelled(without_moved(unmodelled_.after_peak_bytes));
  memory_.update_peak();
  note(costs_.runs.size() + costs_.moments.size());
}

void StepSimulator::update_peak(const UnmodelledMemory::Entry& unmodelled) {
  memory_.update_peak(unmodelled.peak_bytes - unmodelled.before_bytes);
  memory_.pass(unmodelled.peak_bytes - unmodelled.before_bytes);
}

// Simulates the unit reads from `next` on that come before the moment.
void StepSimulator::read_units(size_t& next, size_t moment) {
  const auto& reads = costs_.sharding.reads;
  for (; next < reads.size() && static_cast<size_t>(reads[next].moment) <= moment; ++next) {
    gathers_.read_by_node(reads[next].units);
    held_.reads[next] = {memory_.held_bytes(), memory_.held_bytes()};
    memory_.set_unmodelled(without_moved(unmodelled_.reads[next].before_bytes));
    memory_.update_peak();
    update_peak(unmodelled_.reads[next]);
  }
}

// All that was added since the previous entry belongs to this one.
void StepSimulator::note(size_t entry) {
  if (memory_.peak() > noted_peak_bytes_) {
    noted_peak_bytes_ = memory_.peak();
    peak_entry_ = entry;
  }
  if (!log_) return;
  if (entry == 0) *log_ = {};
  log_->peak_entry = peak_entry_;
  if (entry == costs_.runs.size() + costs_.moments.size()) return;
  log_->entries.push_back({values_.rerun_ms() - noted_rerun_ms_, clock_.waited - noted_wait_ms_});
  noted_rerun_ms_ = values_.rerun_ms();
  noted_wait_ms_ = clock_.waited;
}

}  // namespace memtune::planner
