#include "core/measure/trial/host_op_and_activation_trace_recorder.h"

#include <algorithm>
#include <chrono>

namespace memtune::trial {

using profiler::DeviceActivityProfiler;
using trace::ActivationOpOutputKey;
using trace::EventKind;
using trace::Pass;
using trace::TraceRegionKey;
using trace::TraceRegionLevel;
using trace::TrackRole;
using trace::ValueId;

namespace {

// Describes the cost of recomputing an activation.
std::string cost(const plan::ProgramOpFacts& op) {
  if (op.op_class == plan::OpClass::attention) return "slow: attention";
  if (plan::is_matmul(op.op_class)) return "slow: a matmul";
  if (op.random) return "a pass over memory, with random numbers";
  return "cheap: a pass over memory";
}

TraceRegionKey part_of_model(int block, bool after_blocks, Pass pass) {
  if (block >= 0) return TraceRegionKey::of_block(block, pass);
  return {after_blocks ? TraceRegionLevel::head : TraceRegionLevel::before_blocks, pass};
}

TraceRegionKey part_of_model(const plan::ProgramOpFacts& op, Pass pass) {
  return part_of_model(op.block, op.after_blocks, pass);
}

}  // namespace

HostOpAndActivationTraceRecorder::HostOpAndActivationTraceRecorder(const plan::ProgramFacts& facts,
                                                                   device::Device& device,
                                                                   DeviceActivityProfiler& profiler,
                                                                   step::ActivationPlanExecutor& executor,
                                                                   const DeviceMemoryByOwnerSampler& owners)
    : facts_(facts), profiler_(profiler), executor_(executor), owners_(owners), memory_(device, owners) {
  executor_.set_recorder(this);
}

HostOpAndActivationTraceRecorder::~HostOpAndActivationTraceRecorder() { executor_.set_recorder(nullptr); }

void HostOpAndActivationTraceRecorder::begin_part(const TraceRegionKey& region) {
  parts_.push_back({region, name_of(region), now_ns()});
  profiler_.tag_part(now_part());
}

void HostOpAndActivationTraceRecorder::sample() {
  if (!timed_) memory_.sample(now_part());
}

void HostOpAndActivationTraceRecorder::before(const program::Op& op, const program::Stack& inputs) {
  if (phases_.back().pass == Pass::backward) begin_pass();
  begin_part(part_of_model(facts_.ops[op.id], Pass::forward));
  op_start_ = now_ns();
  executor_.before(op, inputs);
}

void HostOpAndActivationTraceRecorder::after(const program::Op& op, const program::Stack& outputs) {
  executor_.after(op, outputs);
  add(EventKind::op, TrackRole::ops, op.name, op_start_);
  sample();
}

void HostOpAndActivationTraceRecorder::saved(const ActivationOpOutputKey& value) {
  if (value.op >= 0) moments_.push_back({EventKind::save, now_part(), id_of(value)});
}

void HostOpAndActivationTraceRecorder::used(const ActivationOpOutputKey& value, int block) {
  sample();  // memory as the previous part left it
  blocks_behind_ = blocks_behind_ || block >= 0;
  backward_ = part_of_model(block, !blocks_behind_, Pass::backward);
  begin_part(backward_);
  if (phases_.back().pass == Pass::forward) begin_phase(Pass::backward);
  if (value.op >= 0) moments_.push_back({EventKind::use, now_part(), id_of(value)});
}

void HostOpAndActivationTraceRecorder::begin_copies(const ActivationOpOutputKey& value) {
  profiler_.tag_value(id_of(value));
}
void HostOpAndActivationTraceRecorder::end_copies() { profiler_.tag_value({}); }

void HostOpAndActivationTraceRecorder::begin_rerun(const ActivationOpOutputKey& value) {
  begin_part(part_of_model(facts_.ops[value.op], Pass::recompute));
  rerun_start_ = now_ns();
  rerun_value_ = id_of(value);
  profiler_.tag_value(rerun_value_);
}

void HostOpAndActivationTraceRecorder::end_rerun() {
  profiler_.tag_value({});
  add(EventKind::op, TrackRole::reruns, host_.value(rerun_value_).name, rerun_start_).value = rerun_value_;
  sample();
  begin_part(backward_);
}

void HostOpAndActivationTraceRecorder::begin_forward() {
  step_start_ = now_ns();
  blocks_behind_ = false;
  if (timed_)
    steps_.push_back(now_part());
  else
    memory_.begin_step();
  begin_part({});
  phases_.push_back({Pass::forward, now_part(), now_part()});
}

void HostOpAndActivationTraceRecorder::begin_pass() {
  sample();
  blocks_behind_ = false;
  begin_part({});
  begin_phase(Pass::forward);
}

void HostOpAndActivationTraceRecorder::begin_optimizer() {
  sample();
  begin_part(TraceRegionKey::phase(Pass::optimizer));
  begin_phase(Pass::optimizer);
}

void HostOpAndActivationTraceRecorder::end_step() {
  sample();
  begin_part({});
  end_phase();
  add(EventKind::region, TrackRole::steps, "step", step_start_).region.kind = TraceRegionLevel::step;
}

void HostOpAndActivationTraceRecorder::begin_timing() {
  timed_ = true;
  parts_.clear();
  phases_.clear();
  moments_.clear();
  host_.events.clear();
  (void)executor_.stop_recording();
  executor_.start_recording();
}

// The phase begins with the part that has just begun. The phase before it ends with the part before that.
void HostOpAndActivationTraceRecorder::begin_phase(Pass pass) {
  end_phase();
  phases_.push_back({pass, now_part(), now_part()});
}

void HostOpAndActivationTraceRecorder::end_phase() { phases_.back().last_part = now_part() - 1; }

trace::TraceEvent& HostOpAndActivationTraceRecorder::add(EventKind kind, TrackRole role, const std::string& name,
                                                         int64_t start_ns) {
  trace::TraceEvent event;
  event.kind = kind;
  event.track = host_.track({role});
  event.name = host_.name(name);
  event.start_ns = start_ns;
  event.end_ns = now_ns();
  return host_.events.emplace_back(event);
}

ValueId HostOpAndActivationTraceRecorder::id_of(const ActivationOpOutputKey& value) {
  const auto [entry, added] = values_.try_emplace({value.op, value.output}, host_.values.size());
  if (added) host_.values.push_back(describe(value));
  int64_t& bytes = host_.values[entry->second.index()].bytes;
  bytes = std::max(bytes, value.bytes);
  return entry->second;
}

trace::TracedActivationPlacement HostOpAndActivationTraceRecorder::describe(const ActivationOpOutputKey& key) const {
  const auto& fact = facts_.ops[key.op];
  const auto* placement = executor_.placement(key.op);
  const bool own = key.output == kPrivateSave;
  const auto output = static_cast<size_t>(std::max(key.output, 0));
  plan::TensorPlacement place = plan::TensorPlacement::keep;
  if (placement && own) place = placement->saved;
  if (placement && !own && output < placement->outputs.size()) place = placement->outputs[output];
  if (executor_.offloaded_save(key)) place = plan::TensorPlacement::host;
  trace::TracedActivationPlacement value;
  value.block = fact.block;
  value.region = block_name(fact.block, fact.after_blocks);
  value.name = plan::full_name(fact);
  if (own) value.name += ", saved for itself";
  if (output > 0) value.name += ", output " + std::to_string(output);
  value.placement = plan::to_string(place);
  value.reason = cost(fact);
  return value;
}

std::string HostOpAndActivationTraceRecorder::block_name(int block, bool after_blocks) const {
  if (block >= 0) return facts_.blocks[block].region;
  return after_blocks ? "head" : "before the blocks";
}

std::string HostOpAndActivationTraceRecorder::name_of(const TraceRegionKey& region) const {
  if (region.kind == TraceRegionLevel::none) return "";
  if (region.kind == TraceRegionLevel::phase) return to_string(region.pass);
  const std::string name = block_name(region.block, region.kind == TraceRegionLevel::head);
  return region.pass == Pass::forward ? name : name + " " + to_string(region.pass);
}

void HostOpAndActivationTraceRecorder::finish(trace::Trace& trace) {
  executor_.set_recorder(nullptr);
  add_disk_events();
  trace.values = host_.values;
  trace.owners = owners_.owners();
  const std::vector<uint32_t> part_of = profiler_.finish(trace);
  const trace::HostSegmentDeviceWindows clock(parts_, trace, part_of);
  trace::add_block_regions(parts_, clock, trace);
  add_phases(clock, trace);
  for (size_t i = 0; i < steps_.size(); ++i)
    memory_.add_to(trace, clock, steps_[i], i + 1 < steps_.size() ? steps_[i + 1] : now_part());
  add_moments(clock, trace);
  for (trace::TraceEvent event : host_.events) {
    event.track = trace.track(host_.tracks[event.track]);
    event.name = trace.name(host_.names[event.name]);
    trace.events.push_back(event);
  }
  put_values_in_order(trace);
}

// Values were numbered as they came. Users expect the order of the program.
void HostOpAndActivationTraceRecorder::put_values_in_order(trace::Trace& trace) {
  std::vector<ValueId> place(values_.size());
  std::vector<trace::TracedActivationPlacement> ordered;
  for (const auto& [key, id] : values_) {
    place[id.index()] = ValueId(ordered.size());
    ordered.push_back(std::move(trace.values[id.index()]));
  }
  trace.values = std::move(ordered);
  for (trace::TraceEvent& event : trace.events)
    if (event.value) event.value = place[event.value.index()];
}

void HostOpAndActivationTraceRecorder::add_phases(const trace::HostSegmentDeviceWindows& clock,
                                                  trace::Trace& trace) const {
  for (const auto& [pass, first, last] : phases_) {
    trace::TraceEvent event;
    event.kind = EventKind::region;
    event.region = TraceRegionKey::phase(pass);
    event.track = trace.track({TrackRole::phases});
    event.name = trace.name(to_string(pass));
    event.start_ns = clock.begins_ns(first);
    event.end_ns = clock.ends_ns(last);
    trace.events.push_back(event);
  }
}

void HostOpAndActivationTraceRecorder::add_moments(const trace::HostSegmentDeviceWindows& clock,
                                                   trace::Trace& trace) const {
  for (const auto& [kind, part, value] : moments_) {
    trace::TraceEvent event;
    event.kind = kind;
    event.track = trace.track({TrackRole::values});
    event.name = trace.name(trace.value(value).name);
    event.start_ns = event.end_ns = clock.begins_ns(part);
    event.bytes = trace.value(value).bytes;
    event.value = value;
    trace.events.push_back(event);
  }
}

void HostOpAndActivationTraceRecorder::add_disk_events() {
  using std::chrono::nanoseconds, std::chrono::steady_clock;
  const int64_t offset = now_ns() - nanoseconds(steady_clock::now().time_since_epoch()).count();
  for (const auto& [kind, key, bytes, request] : executor_.stop_recording()) {
    const trace::Track track{kind == EventKind::disk_write ? TrackRole::disk_write : TrackRole::disk_read};
    trace::TraceEvent event;
    event.kind = kind;
    event.track = host_.track(track);
    event.name = host_.name(to_string(track));
    event.start_ns = nanoseconds(request->started().time_since_epoch()).count() + offset;
    event.end_ns = nanoseconds(request->ended().time_since_epoch()).count() + offset;
    event.bytes = bytes;
    event.value = id_of(key);
    host_.events.push_back(event);
  }
}

}  // namespace memtune::trial
