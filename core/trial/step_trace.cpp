#include "core/trial/step_trace.h"

#include <algorithm>
#include <chrono>

namespace memtune::trial {

using profiler::Profiler;
using trace::Kind;
using trace::ValueKey;

namespace {

// What making the value again would take.
std::string cost(const config::OpFacts& op) {
  if (op.op_class == config::OpClass::attention) return "attention made it: dear to make again";
  if (config::is_matmul(op.op_class)) return "a matmul made it: dear to make again";
  if (op.random) return "made with random numbers, by a pass over memory";
  return "made by a pass over memory: cheap to make again";
}

}  // namespace

StepTrace::StepTrace(const config::ProgramFacts& facts, device::Device& device, Profiler& profiler,
                     step::Executor& executor, const MemoryOwners& owners)
    : facts_(facts), device_(device), profiler_(profiler), executor_(executor), owners_(owners) {
  executor_.set_recorder(this);
  executor_.start_recording();
}

StepTrace::~StepTrace() { executor_.set_recorder(nullptr); }

void StepTrace::begin_part(const std::string& label) {
  parts_.push_back({label, now_ns()});
  profiler_.tag(Profiler::Tag::part, static_cast<uint32_t>(parts_.size()));
}

void StepTrace::sample() {
  const device::MemoryUse memory = device_.memory();
  device_.reset_peak();
  samples_.push_back({static_cast<uint32_t>(parts_.size()), memory.peak_allocated, memory.allocated, owners_.bytes()});
}

void StepTrace::before(const program::Op& op, const program::Stack& inputs) {
  const auto& fact = facts_.ops[op.id];
  begin_part(block_name(fact.block, fact.after_blocks));
  op_start_ = now_ns();
  executor_.before(op, inputs);
}

void StepTrace::after(const program::Op& op, const program::Stack& outputs) {
  executor_.after(op, outputs);
  add(Kind::op, "host ops", op.name, op_start_);
  sample();
}

void StepTrace::saved(const ValueKey& value) {
  if (value.op >= 0) moments_.push_back({Kind::save, static_cast<uint32_t>(parts_.size()), number_of(value)});
}

void StepTrace::used(const ValueKey& value, int block) {
  sample();  // as the part before left it
  blocks_behind_ = blocks_behind_ || block >= 0;
  backward_label_ = block_name(block, !blocks_behind_) + " backward";
  begin_part(backward_label_);
  if (phases_.back().name == "forward") begin_phase("backward");
  if (value.op >= 0) moments_.push_back({Kind::use, static_cast<uint32_t>(parts_.size()), number_of(value)});
}

void StepTrace::begin_copies(const ValueKey& value) { profiler_.tag(Profiler::Tag::value, number_of(value)); }
void StepTrace::end_copies() { profiler_.tag(Profiler::Tag::value, 0); }

void StepTrace::begin_rerun(const ValueKey& value) {
  const auto& fact = facts_.ops[value.op];
  begin_part(block_name(fact.block, fact.after_blocks) + " recompute");
  rerun_start_ = now_ns();
  rerun_value_ = number_of(value);
  profiler_.tag(Profiler::Tag::value, rerun_value_);
}

void StepTrace::end_rerun() {
  profiler_.tag(Profiler::Tag::value, 0);
  add(Kind::op, "host reruns", host_.values[rerun_value_ - 1].name, rerun_start_, rerun_value_);
  sample();
  begin_part(backward_label_);
}

void StepTrace::begin_forward() {
  step_start_ = now_ns();
  blocks_behind_ = false;
  device_.reset_peak();
  begin_part("");
  begin_phase("forward");
}

void StepTrace::begin_optimizer() {
  sample();
  begin_part("optimizer");
  begin_phase("optimizer");
}

void StepTrace::end_step() {
  sample();
  begin_part("");
  end_phase();
  add(Kind::region, "host steps", "step", step_start_);
}

// With the part that has just begun; the phase before it ends with the part before that.
void StepTrace::begin_phase(const std::string& name) {
  const auto part = static_cast<uint32_t>(parts_.size());
  if (name != "forward") end_phase();
  phases_.push_back({name, part, part});
}

void StepTrace::end_phase() { phases_.back().last_part = static_cast<uint32_t>(parts_.size() - 1); }

void StepTrace::add(Kind kind, const std::string& track, const std::string& name, int64_t start_ns, uint32_t value) {
  trace::Event event;
  event.kind = kind;
  event.track = host_.track(track, false);
  event.name = host_.name(name);
  event.start_ns = start_ns;
  event.end_ns = now_ns();
  event.value = value;
  host_.events.push_back(event);
}

uint32_t StepTrace::number_of(const ValueKey& value) {
  const auto [entry, added] =
      values_.try_emplace({value.op, value.output}, static_cast<uint32_t>(host_.values.size() + 1));
  if (added) host_.values.push_back(describe(value));
  int64_t& bytes = host_.values[entry->second - 1].bytes;
  bytes = std::max(bytes, value.bytes);
  return entry->second;
}

trace::Value StepTrace::describe(const ValueKey& key) const {
  const auto& fact = facts_.ops[key.op];
  const auto* placement = executor_.placement(key.op);
  const bool own = key.output == ValueKey::kPrivate;
  const auto output = static_cast<size_t>(std::max(key.output, 0));
  config::Place place = config::Place::keep;
  if (placement && own) place = placement->saved;
  if (placement && !own && output < placement->outputs.size()) place = placement->outputs[output];
  trace::Value value;
  value.region = block_name(fact.block, fact.after_blocks);
  value.name = config::full_name(fact);
  if (own) value.name += ", saved for itself";
  if (output > 0) value.name += ", output " + std::to_string(output);
  value.placement = config::to_string(place);
  value.reason = cost(fact);
  return value;
}

std::string StepTrace::block_name(int block, bool after_blocks) const {
  if (block >= 0) return facts_.blocks[block].region;
  return after_blocks ? "head" : "before the blocks";
}

void StepTrace::finish(trace::Trace& trace) {
  executor_.set_recorder(nullptr);
  add_disk_events();
  trace.values = host_.values;
  trace.owners = owners_.names();
  const std::vector<uint32_t> part_of = profiler_.finish(trace);
  const trace::PartClock clock(parts_, trace, part_of);
  trace::add_block_regions(parts_, clock, trace);
  add_phases(clock, trace);
  add_samples(clock, trace);
  add_moments(clock, trace);
  for (trace::Event event : host_.events) {
    event.track = trace.track(host_.tracks[event.track].name, false);
    event.name = trace.name(host_.names[event.name]);
    trace.events.push_back(event);
  }
  put_values_in_order(trace);
}

// Values were numbered as they came; as the program makes them is what people expect.
void StepTrace::put_values_in_order(trace::Trace& trace) {
  std::vector<uint32_t> place(values_.size() + 1, 0);
  std::vector<trace::Value> ordered;
  for (const auto& [key, number] : values_) {
    ordered.push_back(std::move(trace.values[number - 1]));
    place[number] = static_cast<uint32_t>(ordered.size());
  }
  trace.values = std::move(ordered);
  for (trace::Event& event : trace.events) event.value = place[event.value];
}

void StepTrace::add_phases(const trace::PartClock& clock, trace::Trace& trace) const {
  for (const auto& [name, first, last] : phases_) {
    trace::Event event;
    event.kind = Kind::region;
    event.track = trace.track("device phases", true);
    event.name = trace.name(name);
    event.start_ns = clock.begins_ns(first);
    event.end_ns = clock.ends_ns(last);
    trace.events.push_back(event);
  }
}

void StepTrace::add_samples(const trace::PartClock& clock, trace::Trace& trace) const {
  std::vector<int64_t> last(trace.owners.size(), 0);
  for (const Sample& sample : samples_) {
    const int64_t time = clock.ends_ns(sample.part);
    // What an op takes and gives back while it runs is its work space: no owner's.
    const int64_t before = trace.memory.empty() ? 0 : trace.memory.back().time_ns;
    trace.memory.push_back({std::max(before, clock.begins_ns(sample.part)), sample.peak_bytes});
    trace.memory.push_back({time, sample.allocated_bytes});
    for (uint32_t owner = 0; owner < last.size(); ++owner)
      if (last[owner] != sample.owned[owner]) trace.owned.push_back({time, owner, last[owner] = sample.owned[owner]});
  }
}

void StepTrace::add_moments(const trace::PartClock& clock, trace::Trace& trace) const {
  for (const auto& [kind, part, value] : moments_) {
    trace::Event event;
    event.kind = kind;
    event.track = trace.track("values", false);
    event.name = trace.name(trace.values[value - 1].name);
    event.start_ns = event.end_ns = clock.begins_ns(part);
    event.bytes = trace.values[value - 1].bytes;
    event.value = value;
    trace.events.push_back(event);
  }
}

void StepTrace::add_disk_events() {
  using std::chrono::nanoseconds, std::chrono::steady_clock;
  const int64_t offset = now_ns() - nanoseconds(steady_clock::now().time_since_epoch()).count();
  for (const auto& [kind, key, bytes, request] : executor_.stop_recording()) {
    const std::string track = kind == Kind::disk_write ? "disk write" : "disk read";
    trace::Event event;
    event.kind = kind;
    event.track = host_.track(track, false);
    event.name = host_.name(track);
    event.start_ns = nanoseconds(request->started().time_since_epoch()).count() + offset;
    event.end_ns = nanoseconds(request->ended().time_since_epoch()).count() + offset;
    event.bytes = bytes;
    event.value = number_of(key);
    host_.events.push_back(event);
  }
}

}  // namespace memtune::trial
